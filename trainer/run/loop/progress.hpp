// What `train` tells ddprun of how far it is: docs/progress.md. Without ddprun it does nothing.
#pragma once

#include <cstdint>

#include "worker/ddprun_progress.h"

namespace ddprun::trainer {

class Progress {
 public:
  Progress() { ddprun_progress_open(&page_); }
  ~Progress() { ddprun_progress_close(&page_); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A look at the clock and a few stores: for every step and phase. `phase` has at most 24 bytes.
  void at(std::int64_t step, const char* phase) {
    ddprun_progress_update(&page_, static_cast<std::uint64_t>(step), phase);
  }

 private:
  ddprun_progress page_;
};

}  // namespace ddprun::trainer
