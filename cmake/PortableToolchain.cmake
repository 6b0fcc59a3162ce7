# Programs for every Linux with glibc 2.28 or newer: the compiler is that of PyPI's ziglang, with its own libc++ and the
# symbols of glibc 2.28; headers and static libraries come from the distribution's packages, oneDNN from its sources (decision
# 0014). scripts/package puts all of them below build/package and uses this file by the presets `portable` and, with another
# portable_architecture, `portable-aarch64`.
set(CMAKE_SYSTEM_NAME Linux)
get_filename_component(package_folder ${CMAKE_CURRENT_LIST_DIR}/../build/package ABSOLUTE)
# The programs run while they are built: they write their own man pages.
if(portable_architecture)
  string(APPEND package_folder /${portable_architecture})
  set(CMAKE_SYSTEM_PROCESSOR ${portable_architecture})
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${portable_architecture} -L ${package_folder}/sysroot)
else()
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
  set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/env)
endif()
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER ${package_folder}/tools/zig-cc)  # oneDNN's project has C enabled
set(CMAKE_CXX_COMPILER ${package_folder}/tools/zig-c++)
set(CMAKE_AR ${package_folder}/tools/zig-ar)
set(CMAKE_RANLIB ${package_folder}/tools/zig-ranlib)
set(DDPRUN_OWN_CATCH2 ON)  # compiled with the tests
# Linker flags are in the presets, which also reach a build folder that was configured before: -s, because the compiler's own
# libraries bring 48 MB for debuggers, and -pie, which this compiler does not choose by itself (for ddprun launcher/ has -no-pie).

# Nothing of this machine: its /usr/include has the headers of its own, newer glibc.
set(CMAKE_FIND_ROOT_PATH ${package_folder}/headers ${package_folder}/onednn/installed ${package_folder}/catch2)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# libjpeg's jconfig.h is where the machine's compiler would look by itself.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${package_folder}/headers/usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
