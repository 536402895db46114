"""`iraid exporter`: metrics for Prometheus, and a page that shows the gateway.

    gather    asks the handler; one asker at a time, within a limit     history   what is kept for the page's plots
    metrics   the table of metrics, and their values                    view      what the page gets, as JSON
    server    HTTP                                                      run       these put together
    page/     the page: HTML, style sheet, script; nothing from elsewhere

It only reads: of all methods of the control socket it calls version, volume.list, volume.status, volume.stats,
pool.list and events.  metrics.py alone uses the Prometheus client library.
"""
