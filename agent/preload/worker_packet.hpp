// What crosses the socket to the importing process and back, as text. Pure; sitecustomize.py is the
// other side.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "machine/processes/spawn.hpp"

namespace ddprun::agent {

/// A worker's command line without its program: Python and its options (https://docs.python.org/3/
/// using/cmdline.html), and then `-c ""`.
std::vector<std::string> words_without_program(const std::vector<std::string>& argv);

/// The contents of the descriptor that comes with `import`, with NULs between: the number of words,
/// the words of a worker, the modules.
std::string import_text(const std::vector<std::string>& argv,
                        const std::vector<std::string>& modules);

/// The contents of a worker's first descriptor, with NULs between: the pid that is to be its
/// parent, its CPUs with commas, the number of words, the words, the variables.
std::string worker_text(const machine::SpawnRequest& request, pid_t parent);

/// An answer of the importing process or of a worker.
struct ImporterAnswer {
  bool ready = false;
  /// Ready: the modules, with commas. Else why not; empty: the other end is gone.
  std::string text;
  /// Ready: a remark for the user. Else the module that is to be left out. May be empty.
  std::string more;
};
ImporterAnswer parse_answer(std::string_view packet);

}  // namespace ddprun::agent
