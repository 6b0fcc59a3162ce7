#include "launcher/program/program.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/shell_word.hpp"
#include "base/substitute.hpp"
#include "launcher/options/other_launchers.hpp"
#include "launcher/program/python_choice.hpp"
#include "launcher/program/run_path.hpp"
#include "launcher/program/script_text.hpp"
#include "texts/suggest.hpp"

namespace ddprun::launcher {
namespace {

bool has_python_extension(std::string_view name) {
  return name.ends_with(".py") || name.ends_with(".pyc") || name.ends_with(".pyz");
}

/// Bytes of the dashes before a name, where one of them is not that of the keyboard: word
/// processors and web pages make -- an en dash (U+2013), an em dash or a minus sign. 0: there is
/// none.
std::size_t other_dashes(std::string_view name) {
  std::size_t at = 0;
  bool other = false;
  while (at < name.size()) {
    const std::string_view rest = name.substr(at);
    const bool dash =
        rest.size() > 2 && rest.starts_with("\xe2\x80") && rest[2] >= '\x90' && rest[2] <= '\x95';
    if (dash || rest.starts_with("\xe2\x88\x92")) {
      other = true;
      at += 3;
    } else if (rest.starts_with('-')) {
      ++at;
    } else {
      break;
    }
  }
  return other ? at : 0;
}

/// One resolution; its members are what every step needs.
class Resolver {
 public:
  Resolver(const ProgramRequest& request, const Environment& environment, const FileProbe& files)
      : request_(request), environment_(environment), files_(files) {}

  LaunchResult<ProgramChoice> run() const;

 private:
  LaunchResult<ProgramChoice> forced_python() const;
  LaunchResult<ProgramChoice> with_slash() const;
  LaunchResult<ProgramChoice> bare() const;
  std::optional<ProgramChoice> bundled() const;
  LaunchResult<ProgramChoice> under_python(ProgramChoice::Kind kind,
                                           const std::string& reason) const;
  ProgramChoice directly(ProgramChoice::Kind kind, const std::string& file,
                         const std::string& reason) const;
  [[nodiscard]] std::optional<std::string> on_path(std::string_view name) const {
    return program_on_path(name, environment_, files_);
  }
  LaunchError not_executable(const std::string& file, const std::string& what) const;
  std::optional<LaunchError> unusable_script(const std::string& file) const;
  LaunchError no_first_line(const std::string& file) const;
  [[nodiscard]] std::string with_interpreter(const std::string& interpreter) const;
  LaunchError special_file(const FileInfo& info) const;
  LaunchError not_found() const;
  LaunchError folder() const;

  /// Where an installation keeps the bundled programs, as people would write it.
  [[nodiscard]] std::string libexec_folder() const {
    return std::filesystem::path(request_.executable_folder).parent_path() / "libexec/ddprun";
  }

  const ProgramRequest& request_;
  const Environment& environment_;
  const FileProbe& files_;
};

LaunchResult<ProgramChoice> Resolver::run() const {
  if (request_.module)
    return under_python(ProgramChoice::Kind::python_module, "a Python module, because of -m");
  if (request_.python) return forced_python();
  if (request_.program.find('/') != std::string::npos) return with_slash();
  return bare();
}

LaunchResult<ProgramChoice> Resolver::forced_python() const {
  FileInfo info = files_.look(request_.program);
  if (info.kind == FileInfo::Kind::absent)
    info = files_.look(substitute_local_rank(request_.program, 0));
  if (info.kind == FileInfo::Kind::absent) return not_found();
  if (info.kind == FileInfo::Kind::folder) return folder();
  auto choice =
      under_python(ProgramChoice::Kind::python_script, "a Python file, because of --run-path");
  if (choice) choice->argv.insert(choice->argv.begin() + 2, {"-c", kRunPathProgram});
  return choice;
}

LaunchResult<ProgramChoice> Resolver::with_slash() const {
  const std::string& name = request_.program;
  const bool python_name = has_python_extension(name) && !request_.no_python;
  // Python gets the name after torchrun's macro, so that is the file to look at.
  FileInfo info = files_.look(name);
  if (info.kind == FileInfo::Kind::absent && python_name)
    info = files_.look(substitute_local_rank(name, 0));
  if (info.kind == FileInfo::Kind::absent) return not_found();
  if (info.kind == FileInfo::Kind::folder) return folder();
  if (info.kind == FileInfo::Kind::other) return special_file(info);
  if (python_name)
    return under_python(ProgramChoice::Kind::python_script, "a Python file by its name");
  if (info.executable) {
    if (auto refused = unusable_script(name)) return *std::move(refused);
    return directly(ProgramChoice::Kind::file, name, "an executable file, named with a slash");
  }
  if (request_.no_python)
    return not_executable(name, "a file that is not executable (and --no-python is given)");
  const std::string foreign = foreign_content(name, info.first_bytes);
  if (!foreign.empty()) return not_executable(name, foreign + " that is not executable");
  return under_python(ProgramChoice::Kind::python_script,
                      "a file that is not executable: a Python script, as for torchrun");
}

LaunchResult<ProgramChoice> Resolver::bare() const {
  if (const auto found = bundled()) return *found;
  const std::string& name = request_.program;
  const bool python_name = has_python_extension(name);
  FileInfo here = files_.look(name);
  if (here.kind == FileInfo::Kind::absent && python_name)
    here = files_.look(substitute_local_rank(name, 0));
  const bool regular = here.kind == FileInfo::Kind::regular;
  const std::string foreign =
      regular && !here.executable ? foreign_content(name, here.first_bytes) : "";
  if (!request_.no_python && regular) {
    if (python_name)
      return under_python(ProgramChoice::Kind::python_script, "a Python file by its name");
    if (!here.executable && foreign.empty()) {
      return under_python(
          ProgramChoice::Kind::python_script,
          "a file in the current folder that is not executable: a Python script, as for torchrun");
    }
  }
  if (const auto file = on_path(name)) {
    if (auto refused = unusable_script(*file)) return *std::move(refused);
    return directly(ProgramChoice::Kind::path, *file, "found on PATH");
  }
  if (here.kind == FileInfo::Kind::folder) return folder();
  if (here.kind == FileInfo::Kind::other) return special_file(here);
  if (regular && !here.executable) {
    return not_executable("./" + name,
                          (foreign.empty() ? "a file" : foreign) + " that is not executable");
  }
  return not_found();
}

std::optional<ProgramChoice> Resolver::bundled() const {
  if (std::find(kBundledPrograms.begin(), kBundledPrograms.end(), request_.program) ==
          kBundledPrograms.end() ||
      request_.executable_folder.empty()) {
    return std::nullopt;
  }
  // libexec first: in an installed tree the folder of ddprun has programs of other packages, too.
  for (const auto& folder : {libexec_folder(), request_.executable_folder}) {
    const std::string file = path_of(folder, request_.program);
    if (is_program(files_.look(file))) {
      return directly(ProgramChoice::Kind::bundled, file,
                      "the program of this name that comes with ddprun");
    }
  }
  return std::nullopt;
}

ProgramChoice Resolver::directly(ProgramChoice::Kind kind, const std::string& file,
                                 const std::string& reason) const {
  ProgramChoice choice{.kind = kind,
                       .name = request_.program,
                       .file = file,
                       .argv = {request_.program},
                       .python = {},
                       .other_environment = {},
                       .reason = reason};
  choice.argv.insert(choice.argv.end(), request_.arguments.begin(), request_.arguments.end());
  return choice;
}

LaunchResult<ProgramChoice> Resolver::under_python(ProgramChoice::Kind kind,
                                                   const std::string& reason) const {
  auto interpreter =
      choose_python(request_.program, request_.executable_folder, environment_, files_);
  if (!interpreter) return interpreter.error();
  ProgramChoice choice{
      .kind = kind,
      .name = request_.program,
      .file = interpreter->file,
      .argv = {interpreter->file, "-u"},
      .python = interpreter->file,
      .other_environment = other_environment(interpreter->file, environment_, files_),
      .reason = reason + interpreter->origin};
  if (kind == ProgramChoice::Kind::python_module) choice.argv.push_back("-m");
  choice.argv.push_back(request_.program);
  choice.argv.insert(choice.argv.end(), request_.arguments.begin(), request_.arguments.end());
  return choice;
}

LaunchError Resolver::not_executable(const std::string& file, const std::string& what) const {
  const std::string first_bytes = files_.contents(file, kFirstLineMax);
  const bool names_one = first_bytes.starts_with("#!");
  std::string interpreter = interpreter_of(first_bytes);
  if (names_one && !on_path(interpreter)) interpreter.clear();
  if (!names_one && file.ends_with(".sh")) interpreter = on_path("bash") ? "bash" : "sh";
  const bool noexec = files_.look(file).noexec;
  const std::string is = noexec ? " lies on a file system mounted noexec" : " is " + what;
  const std::string change = noexec ? "copy it to another one" : "chmod +x " + shell_word(file);
  if (interpreter.empty()) return {kExitNotExecutable, file + is + ": " + change};
  std::string otherwise = names_one ? ", or " + change : "";
  if (names_one && !noexec) otherwise += " and ddprun ... " + shell_word(file);
  return {kExitNotExecutable, file + is + ": type " + with_interpreter(interpreter) + otherwise};
}

/// Why an executable file cannot be started as it is; none: it can, or it is no script.
std::optional<LaunchError> Resolver::unusable_script(const std::string& file) const {
  const std::string first_bytes = files_.contents(file, kFirstLineMax);
  if (is_bare_shell_script(file, first_bytes)) return no_first_line(file);
  const std::string wanted = lost_by_env(first_bytes);
  if (wanted.empty()) return std::nullopt;
  return LaunchError(kExitNotExecutable, file + ": its lines end in CR LF, so env does not find " +
                                             wanted + "; convert it (dos2unix)");
}

/// The kernel would refuse it.
LaunchError Resolver::no_first_line(const std::string& file) const {
  return {kExitNotExecutable,
          file + " is a shell script without a first line like #!/bin/bash: type " +
              with_interpreter(on_path("bash") ? "bash" : "sh") + ", or add that line"};
}

/// What to type in place of a script alone.
std::string Resolver::with_interpreter(const std::string& interpreter) const {
  return "ddprun ... " + interpreter + " " + shell_word(request_.program) +
         (request_.arguments.empty() ? "" : " ...");
}

LaunchError Resolver::special_file(const FileInfo& info) const {
  return {kExitNotExecutable,
          request_.program + " is " + info.special + ", not a file: PROGRAM must be a file"};
}

LaunchError Resolver::folder() const {
  std::string message = request_.program + " is a folder: PROGRAM must be a file";
  if (files_.look(path_of(request_.program, "__main__.py")).kind == FileInfo::Kind::regular) {
    message += "; try " + path_of(request_.program, "__main__.py");
  }
  return usage_error(message);
}

LaunchError Resolver::not_found() const {
  const std::string& name = request_.program;
  if (const auto dashes = other_dashes(name); dashes > 0) {
    return usage_error(name +
                       " begins with a dash that is not '-' (from a web page?): retype it as --" +
                       name.substr(dashes));
  }
  if (const auto target = files_.look(name).link_target; !target.empty())
    return {kExitNotFound, name + " is a link to " + target + ", which does not exist"};
  if (!name.starts_with('/') && files_.in_deleted_folder()) {
    return {kExitNotFound, name +
                               ": not found, for the current folder has been deleted: cd to "
                               "another one"};
  }
  const auto slash = name.rfind('/');
  std::string message = name + ": not found";
  if (slash == std::string::npos && is_program(files_.look(name))) {
    if (is_bare_shell_script(name, files_.contents(name, kFirstLineMax)))
      return no_first_line(name);
    return {kExitNotFound, message + " on PATH; for the one in the current folder type ./" + name};
  }
  if (const auto instead = instead_of_command(name); !instead.empty())
    return {kExitNotFound, message + instead};
  if (std::find(kBundledPrograms.begin(), kBundledPrograms.end(), name) != kBundledPrograms.end()) {
#ifdef DDPRUN_WITHOUT_TRAIN
    return {kExitNotFound, message +
                               ": this package of ddprun is without the trainer; build it from a "
                               "checkout (see Install in its README.md), or give a path"};
#else
    return {kExitNotFound, message + ": it comes with ddprun, but is neither in " +
                               libexec_folder() + " nor in " + request_.executable_folder +
                               "; install ddprun again, or give a path"};
#endif
  }
  std::vector<std::string> candidates;
  std::string folder = ".", prefix;
  if (slash == std::string::npos) {
    candidates.assign(kBundledPrograms.begin(), kBundledPrograms.end());
  } else {
    prefix = name.substr(0, slash + 1);
    folder = slash == 0 ? "/" : name.substr(0, slash);
  }
  for (auto& entry : files_.names_in(folder)) {
    if (files_.look(path_of(folder, entry)).kind == FileInfo::Kind::regular)
      candidates.push_back(std::move(entry));
  }
  if (const auto meant =
          nearest(slash == std::string::npos ? name : name.substr(slash + 1), candidates)) {
    const bool local =
        slash == std::string::npos && !has_python_extension(*meant) &&
        is_program(files_.look(*meant));  // a bare name would not find this one either
    return {kExitNotFound, message + "; did you mean " + (local ? "./" : prefix) + *meant + "?"};
  }
  if (slash != std::string::npos) return {kExitNotFound, message + ": is the path right?"};
  return {kExitNotFound, message +
                             ": neither a program that comes with ddprun, nor a file in the "
                             "current folder, nor on PATH"};
}

}  // namespace

LaunchResult<ProgramChoice> resolve_program(const ProgramRequest& request,
                                            const Environment& environment,
                                            const FileProbe& files) {
  return Resolver(request, environment, files).run();
}

std::string substitute_local_rank(std::string_view argument, int local_rank) {
  const std::string number = std::to_string(local_rank);
  const Substitution substitution{"local_rank", number};
  // `$$` is a shell's process id in an argument without the macro.
  if (!has_placeholder(argument, substitution.name)) return std::string(argument);
  return substitute(argument, {&substitution, 1});
}

}  // namespace ddprun::launcher
