#include "agent/progress/stack_methods.hpp"

#include <unistd.h>

#include <algorithm>

namespace ddprun::agent {
namespace {

constexpr std::string_view kInterpreterFrames = " frames of Python's interpreter)";

bool is_python(const std::string& executable) {
  const std::string name = executable.substr(executable.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("pypy");
}

/// `#3  0x00007f in _PyEval_EvalFrameDefault (...)`, or without an address: what follows.
std::string_view function_of(std::string_view frame) {
  const std::size_t in = frame.find(" in ");
  const std::size_t arguments = frame.find(" (");
  const bool has_address = in != std::string_view::npos && in < arguments;
  const std::size_t begin =
      has_address ? in + 4 : frame.find_first_not_of(' ', std::min(frame.find(' '), frame.size()));
  return begin < frame.size() ? frame.substr(begin) : std::string_view();
}

bool is_of_interpreter(std::string_view line) {
  if (!line.starts_with('#')) return false;
  constexpr std::string_view kBeginnings[] = {"_Py", "Py", "pymain_", "cfunction_",
                                              "method_vectorcall"};
  const std::string_view function = function_of(line);
  return std::any_of(
      std::begin(kBeginnings), std::end(kBeginnings),
      [function](std::string_view beginning) { return function.starts_with(beginning); });
}

bool is_thread(const std::string& line) { return line.starts_with("Thread "); }

bool is_about_debugger(std::string_view line) {
  constexpr std::string_view kBeginnings[] = {"[New LWP",          "[New Thread",
                                              "[Thread debugging", "Using host libthread_db",
                                              "warning: Error",    "[Inferior "};
  return line.empty() ||
         std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [line](std::string_view beginning) { return line.starts_with(beginning); });
}

}  // namespace

std::vector<StackMethod> stack_methods(const std::string& executable, int pid,
                                       const StackPrograms& programs) {
  const std::string number = std::to_string(pid);
  std::vector<StackMethod> methods;
  if (is_python(executable) && !programs.py_spy.empty())
    methods.push_back({"py-spy", {programs.py_spy, "dump", "--pid", number}});
  if (!programs.gdb.empty()) {
    // Names, not values: the functions show what waits for what. The first thread first.
    methods.push_back(
        {"gdb",
         {programs.gdb, "-p", number, "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex",
          "set width 0", "-ex", "set print frame-arguments presence", "-ex",
          "set print entry-values no", "-ex", "thread apply all -ascending bt 64"},
         is_python(executable)});
  }
  return methods;
}

std::vector<std::string> stack_lines(std::string_view output) {
  std::vector<std::string> lines;
  while (!output.empty() && lines.size() < kStackLinesMax) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    std::string line(output.substr(0, end));
    output.remove_prefix(std::min(end + 1, output.size()));
    if (is_about_debugger(line)) continue;
    std::replace_if(
        line.begin(), line.end(),
        [](char c) { return (static_cast<unsigned char>(c) < 32 && c != '\t') || c == 127; }, '?');
    lines.push_back(std::move(line));
  }
  // What comes before the first thread is the program speaking of what it does.
  const auto first = std::find_if(lines.begin(), lines.end(),
                                  [](const std::string& line) { return is_thread(line); });
  if (first != lines.end()) lines.erase(lines.begin(), first);
  return lines;
}

std::vector<std::string> without_interpreter(const std::vector<std::string>& lines) {
  std::vector<std::string> kept;
  std::size_t left_out = 0;
  const auto end_thread = [&] {
    if (left_out > 0)
      kept.push_back("    (" + std::to_string(left_out) + std::string(kInterpreterFrames));
    left_out = 0;
  };
  for (const std::string& line : lines) {
    if (is_thread(line)) end_thread();
    if (line.starts_with('#') && (left_out > 0 || is_of_interpreter(line))) {
      ++left_out;
    } else {
      if (left_out > 0) end_thread();
      kept.push_back(line);
    }
  }
  end_thread();
  return kept;
}

FirstThread first_thread_of_python(const std::vector<std::string>& stacks) {
  const bool is_of_python = std::any_of(stacks.begin(), stacks.end(), [](const std::string& line) {
    return line.ends_with(kInterpreterFrames);
  });
  const auto threads = std::count_if(stacks.begin(), stacks.end(), is_thread);
  if (!is_of_python || threads < 2) return {stacks.size(), 0};
  const auto first = std::find_if(stacks.begin(), stacks.end(), is_thread);
  const auto second = std::find_if(first + 1, stacks.end(), is_thread);
  return {static_cast<std::size_t>(second - stacks.begin()), static_cast<std::size_t>(threads - 1)};
}

bool has_frames(const std::vector<std::string>& lines) {
  // Both begin a thread's frames with a line that begins so.
  return std::any_of(lines.begin(), lines.end(), is_thread);
}

std::string find_program(const std::string& name, std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string candidate = std::string(path.substr(0, end)) + "/" + name;
    path.remove_prefix(std::min(end + 1, path.size()));
    // A relative folder depends on where we are: no place for what runs beside a job.
    if (candidate.front() == '/' && candidate != "/" + name &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

}  // namespace ddprun::agent
