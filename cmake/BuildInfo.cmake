# Run at every build (cmake -P): writes OUTPUT with version, git state and compiler, only when something changed.
# A source tree of its own has no .git; the repository around it, if there is one, is another project's.
if(EXISTS ${SOURCE_DIR}/.git)
  # Neither tags nor the size of the clone change it, so a commit has the same bytes before and after its release is tagged.
  execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE git_state OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR NOT git_state)
    set(git_state "git state unknown")
  endif()
else()
  set(git_state "not built from a git checkout")
endif()
set(text "#pragma once
namespace ddprun {
inline constexpr const char* kBuildVersion = \"${VERSION}\";
inline constexpr const char* kBuildGitState = \"${git_state}\";
inline constexpr const char* kBuildCompiler = \"${COMPILER}\";
inline constexpr const char* kBuildType = \"${TYPE}\";
}  // namespace ddprun
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
