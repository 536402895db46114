# What makes a mistake in C harder to exploit, for every object that is built: hostile bytes of targets and
# initiators come into a process of root's.  tests/unit/packaging/test_hardening.py looks at what was built.
include(CheckCCompilerFlag)
include(CheckPIESupported)

# Programs are loaded at an address of chance.  Without this CMake compiles for it and links without it.
check_pie_supported(OUTPUT_VARIABLE iraid_no_pie LANGUAGES C)
if(NOT CMAKE_C_LINK_PIE_SUPPORTED)
	message(WARNING "programs are linked at fixed addresses: ${iraid_no_pie}")
endif()

# A canary behind buffers on the stack; large frames touch each page, so that none is jumped over; and where the
# processor knows it, calls and jumps land only where functions begin (x86: CET, ARM: BTI and PAC).
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
	string(MAKE_C_IDENTIFIER "IRAID_HAVE${flag}" known)
	check_c_compiler_flag(${flag} ${known})
	if(${known})
		add_compile_options(${flag})
	endif()
endforeach()

# Bounds of the C library's calls.  It needs optimisation, and sanitizers have better checks of their own.  Packages
# ask for 2; level 3 also knows sizes that are computed.
if(NOT IRAID_SANITIZE AND NOT IRAID_THREAD_SANITIZE AND NOT IRAID_COVERAGE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
	add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()

# Addresses of functions are looked up at the start and then read-only; no stack is executable.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
