# Finds libsodium: Sodium_FOUND, Sodium_VERSION and the target Sodium::sodium. (The package has pkg-config files only.) The
# static library comes first: our programs start anywhere, and a shared one is one more file to load at every start.
find_path(SODIUM_INCLUDE_DIR sodium.h)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium)
if(SODIUM_INCLUDE_DIR)
  file(STRINGS ${SODIUM_INCLUDE_DIR}/sodium/version.h sodium_version_line REGEX "#define SODIUM_VERSION_STRING ")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" Sodium_VERSION "${sodium_version_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Sodium REQUIRED_VARS SODIUM_LIBRARY SODIUM_INCLUDE_DIR VERSION_VAR Sodium_VERSION)
if(Sodium_FOUND AND NOT TARGET Sodium::sodium)
  add_library(Sodium::sodium UNKNOWN IMPORTED)
  set_target_properties(Sodium::sodium PROPERTIES IMPORTED_LOCATION ${SODIUM_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SODIUM_INCLUDE_DIR})
endif()
mark_as_advanced(SODIUM_INCLUDE_DIR SODIUM_LIBRARY)
