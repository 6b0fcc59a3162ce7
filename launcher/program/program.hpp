// PROGRAM -> the file to execute and its arguments, or why there is none. Pure: the file system is
// asked through a probe.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// Programs that come with ddprun, found in ../libexec/ddprun or beside ddprun itself.
inline constexpr std::array<std::string_view, 1> kBundledPrograms = {"train"};

struct FileInfo {
  enum class Kind { absent, regular, folder, other } kind = Kind::absent;
  bool executable = false;  ///< by this user
  std::string first_bytes;  ///< at most 256, of a regular file that can be read
  std::string special;      ///< of Kind::other: `a pipe`, `a socket`, `a device`
  std::string link_target;  ///< of Kind::absent: it is a link that leads nowhere
  bool noexec = false;      ///< not executable, and its file system lets no file be executed
};

/// What resolve_program asks of the file system. Symbolic links are followed.
class FileProbe {
 public:
  virtual ~FileProbe() = default;
  [[nodiscard]] virtual FileInfo look(const std::string& path) const = 0;
  /// The beginning of a regular file; empty when it can't be read.
  [[nodiscard]] virtual std::string contents(const std::string& path,
                                             std::size_t bytes_max) const = 0;
  /// Whether both paths lead to one folder.
  [[nodiscard]] virtual bool same_folder(const std::string& one,
                                         const std::string& other) const = 0;
  /// Whether the current folder has been deleted.
  [[nodiscard]] virtual bool in_deleted_folder() const = 0;
  /// Names of a folder's entries, for suggestions; empty when it can't be read.
  [[nodiscard]] virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
};

class RealFileProbe : public FileProbe {
 public:
  [[nodiscard]] FileInfo look(const std::string& path) const override;
  [[nodiscard]] std::string contents(const std::string& path, std::size_t bytes_max) const override;
  [[nodiscard]] bool same_folder(const std::string& one, const std::string& other) const override;
  [[nodiscard]] bool in_deleted_folder() const override;
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const override;
};

/// What every worker executes.
struct ProgramChoice {
  enum class Kind {
    bundled,        ///< one of kBundledPrograms
    python_script,  ///< python -u FILE
    python_module,  ///< python -u -m MODULE
    file,           ///< a file named with a slash
    path,           ///< found on PATH
  } kind = Kind::file;
  std::string name;  ///< as typed
  std::string file;  ///< to execve; absolute, or relative to the current folder
  /// With argv[0]; substitute_local_rank is applied to all but argv[0], for each worker.
  std::vector<std::string> argv;
  std::string python;  ///< the interpreter; empty when none is used
  /// The active environment (venv, conda) that has a Python, but not this one; else empty.
  std::string other_environment{};
  std::string reason;  ///< how it was chosen, for people
};

struct ProgramRequest {
  std::string program;
  std::vector<std::string> arguments;
  bool module = false;
  bool no_python = false;
  bool python = false;            ///< a Python file, whatever its name
  std::string executable_folder;  ///< where ddprun itself lies
};

/// Exit codes of its errors: 2 a folder, 126 not executable, 127 not found.
LaunchResult<ProgramChoice> resolve_program(const ProgramRequest& request,
                                            const Environment& environment, const FileProbe& files);

/// torchrun's macro: `${local_rank}` and `$local_rank` become the number, and beside one `$$`
/// becomes `$` (Python's string.Template.safe_substitute). `$${local_rank}` is such a macro with
/// its `$` doubled. An argument without any stays as it is, with its `$$`.
std::string substitute_local_rank(std::string_view argument, int local_rank);

}  // namespace ddprun::launcher
