# PortableToolchain.cmake for 64-bit Arm: for the preset `portable-aarch64`.
set(portable_architecture aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/PortableToolchain.cmake)
