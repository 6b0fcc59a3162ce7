# Run by cmake --install: writes the unit file for this prefix.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
cmake_path(ABSOLUTE_PATH bin_folder BASE_DIRECTORY ${prefix} NORMALIZE OUTPUT_VARIABLE RDZVD)
string(APPEND RDZVD /rdzvd)
# systemd expands %, and takes words apart at spaces.
string(REPLACE "%" "%%" RDZVD "${RDZVD}")
if(RDZVD MATCHES " ")
  string(PREPEND RDZVD "\"")
  string(APPEND RDZVD "\"")
endif()
configure_file(${unit_template} ${unit_file} @ONLY)
