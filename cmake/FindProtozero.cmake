# Finds protozero, which is headers only: Protozero_FOUND and the target Protozero::Protozero.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Protozero REQUIRED_VARS PROTOZERO_INCLUDE_DIR)
if(Protozero_FOUND AND NOT TARGET Protozero::Protozero)
  add_library(Protozero::Protozero INTERFACE IMPORTED)
  set_target_properties(Protozero::Protozero PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${PROTOZERO_INCLUDE_DIR})
endif()
mark_as_advanced(PROTOZERO_INCLUDE_DIR)
