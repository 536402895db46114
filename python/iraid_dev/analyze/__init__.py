"""scripts/analyze: two static analyzers over all C code that is shipped."""
