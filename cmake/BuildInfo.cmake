# Run at every build (cmake -P): writes OUTPUT with version, git state and compiler, only when something changed.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --tags
  OUTPUT_VARIABLE git_state OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT git_state)
  set(git_state "no git state")
endif()
set(text "#pragma once
namespace ddprun::proto {
inline constexpr const char* kBuildVersion = \"${VERSION}\";
inline constexpr const char* kBuildGitState = \"${git_state}\";
inline constexpr const char* kBuildCompiler = \"${COMPILER}\";
inline constexpr const char* kBuildType = \"${TYPE}\";
}  // namespace ddprun::proto
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
