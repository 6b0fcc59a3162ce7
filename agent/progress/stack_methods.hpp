// By which programs the stacks of a process can be seen, and what of their output is worth keeping.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

inline constexpr std::size_t kStackLinesMax = 2000;

/// Where the programs are; empty: not here.
struct StackPrograms {
  std::string py_spy;
  std::string gdb;
};

struct StackMethod {
  std::string name;  ///< `py-spy`, `gdb`
  std::vector<std::string> argv;
  bool shows_interpreter = false;  ///< its frames are those of Python's interpreter
};

/// In the order in which they are to be tried: py-spy for Python, which a debugger shows as an
/// interpreter's loop, then gdb. `executable` is what the process runs, with its path.
std::vector<StackMethod> stack_methods(const std::string& executable, int pid,
                                       const StackPrograms& programs);

/// The lines of a program's output, without what is only about the program itself. Control
/// characters have become '?'.
std::vector<std::string> stack_lines(std::string_view output);

/// gdb's lines of a Python process, without the frames from the first of the interpreter on in each
/// thread: they show its loop and no function of the program. A line has their number.
std::vector<std::string> without_interpreter(const std::vector<std::string>& lines);

/// How much of a worker's stacks belongs to its first thread.
struct FirstThread {
  std::size_t lines = 0;          ///< with all lines before it
  std::size_t other_threads = 0;  ///< after these lines
};

/// Finds the first thread in what without_interpreter gave: the other threads of a Python process
/// are mostly those of libraries, such as PyTorch's. In stacks of other processes all lines count
/// as its.
FirstThread first_thread_of_python(const std::vector<std::string>& stacks);

/// Whether there is any frame of a stack in it.
bool has_frames(const std::vector<std::string>& lines);

/// The program `name` in one of the folders of `path`, a list as in PATH; empty: in none.
std::string find_program(const std::string& name, std::string_view path);

}  // namespace ddprun::agent
