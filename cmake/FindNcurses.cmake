# Finds ncurses for wide characters: Ncurses_FOUND, Ncurses_VERSION and the target Ncurses::ncurses. (CMake's own FindCurses takes
# shared libraries.) The static libraries come first, so that ddpctl starts on any system: what it needs there is a description of
# the terminal, which the system has. Debian builds the part that reads those as a library of its own, libtinfo.
find_path(NCURSES_INCLUDE_DIR ncurses.h PATH_SUFFIXES ncursesw)
find_library(NCURSES_LIBRARY NAMES libncursesw.a ncursesw)
find_library(NCURSES_TERMINFO_LIBRARY NAMES libtinfo.a tinfo tinfow)
if(NCURSES_INCLUDE_DIR)
  file(STRINGS ${NCURSES_INCLUDE_DIR}/curses.h ncurses_version_line REGEX "#define NCURSES_VERSION ")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" Ncurses_VERSION "${ncurses_version_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Ncurses REQUIRED_VARS NCURSES_LIBRARY NCURSES_INCLUDE_DIR VERSION_VAR Ncurses_VERSION)
if(Ncurses_FOUND AND NOT TARGET Ncurses::ncurses)
  add_library(Ncurses::ncurses UNKNOWN IMPORTED)
  set_target_properties(Ncurses::ncurses PROPERTIES IMPORTED_LOCATION ${NCURSES_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${NCURSES_INCLUDE_DIR})
  if(NCURSES_TERMINFO_LIBRARY)
    set_target_properties(Ncurses::ncurses PROPERTIES INTERFACE_LINK_LIBRARIES ${NCURSES_TERMINFO_LIBRARY})
  endif()
endif()
mark_as_advanced(NCURSES_INCLUDE_DIR NCURSES_LIBRARY NCURSES_TERMINFO_LIBRARY)
