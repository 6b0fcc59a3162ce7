#include "machine/processes/exec_error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/unique_handle.hpp"

namespace ddprun::machine {
namespace {

constexpr std::string_view kScript = "#!";
constexpr std::string_view kElf =
    "\x7f"
    "ELF";
constexpr std::size_t kFirstLineMax = 256;  // the kernel looks no further

}  // namespace

std::string explain_by_first_line(int error, std::string_view first_line) {
  const bool script = first_line.starts_with(kScript);
  if (error == ENOEXEC && first_line.starts_with(kElf))
    return "it is damaged, or was built for another kind of machine";
  if (error == ENOEXEC && !script)
    return "not an executable format, and no #! line: add #!/bin/sh, or #!/usr/bin/env python3, as "
           "its first line";
  if (error != ENOENT) return "";
  if (!script)
    return "its dynamic loader is missing: it was built for another system (musl or glibc, or "
           "another architecture)";
  const bool dos = first_line.ends_with('\r');
  std::string_view interpreter = first_line.substr(kScript.size());
  interpreter.remove_prefix(std::min(interpreter.find_first_not_of(" \t"), interpreter.size()));
  interpreter = interpreter.substr(0, interpreter.find_first_of(" \t\r"));
  const std::string name(interpreter);
  return dos ? "its lines end in CR LF, so " + name + " is not found; convert it (dos2unix)"
             : "interpreter " + name + " does not exist; fix the #! line";
}

std::string explain_exec_error(int error, const std::string& file) {
  if (error == EAGAIN) return "the limit of processes is reached; raise it (ulimit -u, pids.max)";
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kFirstLineMax> text{};
  const ssize_t n = fd ? read(fd.get(), text.data(), text.size()) : -1;
  if (n < 0) return "";  // the kernel's own message has to do
  const std::string_view begin(text.data(), static_cast<std::size_t>(n));
  return explain_by_first_line(error, begin.substr(0, begin.find('\n')));
}

}  // namespace ddprun::machine
