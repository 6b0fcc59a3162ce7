# Finds OpenSSL's headers: OpenSSLHeaders_FOUND, OpenSSLHeaders_VERSION and the target OpenSSL::headers. (CMake's own FindOpenSSL also
# wants the libraries, which are opened at run time.) Where Debian's package is unpacked, opensslconf.h is in another folder than
# the others.
find_path(OPENSSL_HEADERS_INCLUDE_DIR openssl/ssl.h HINTS ${OPENSSL_ROOT_DIR} $ENV{OPENSSL_ROOT_DIR} PATH_SUFFIXES include)
find_path(OPENSSL_HEADERS_CONF_INCLUDE_DIR openssl/opensslconf.h HINTS ${OPENSSL_ROOT_DIR} $ENV{OPENSSL_ROOT_DIR} PATH_SUFFIXES include)
if(OPENSSL_HEADERS_INCLUDE_DIR)
  file(STRINGS ${OPENSSL_HEADERS_INCLUDE_DIR}/openssl/opensslv.h openssl_version_lines REGEX "define OPENSSL_VERSION_TEXT +\"OpenSSL ")
  string(REGEX REPLACE ".*\"OpenSSL ([0-9.]+).*" "\\1" OpenSSLHeaders_VERSION "${openssl_version_lines}")
  if(NOT openssl_version_lines)  # 3 composes the text of numbers
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${OPENSSL_HEADERS_INCLUDE_DIR}/openssl/opensslv.h openssl_${part} REGEX "define OPENSSL_VERSION_${part} ")
      string(REGEX REPLACE ".*OPENSSL_VERSION_${part} +([0-9]+).*" "\\1" openssl_${part} "${openssl_${part}}")
    endforeach()
    set(OpenSSLHeaders_VERSION ${openssl_MAJOR}.${openssl_MINOR}.${openssl_PATCH})
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenSSLHeaders REQUIRED_VARS OPENSSL_HEADERS_INCLUDE_DIR OPENSSL_HEADERS_CONF_INCLUDE_DIR
  VERSION_VAR OpenSSLHeaders_VERSION)
if(OpenSSLHeaders_FOUND AND NOT TARGET OpenSSL::headers)
  add_library(OpenSSL::headers INTERFACE IMPORTED)
  set_target_properties(OpenSSL::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${OPENSSL_HEADERS_INCLUDE_DIR};${OPENSSL_HEADERS_CONF_INCLUDE_DIR}")
endif()
mark_as_advanced(OPENSSL_HEADERS_INCLUDE_DIR OPENSSL_HEADERS_CONF_INCLUDE_DIR)
