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
  /// The number of ddprun's newest request for a checkpoint, until it is met; 0: none.
  std::uint32_t save_requested() { return ddprun_progress_save_requested(&page_); }
  /// The request of this number is met.
  void saved(std::uint32_t number) { ddprun_progress_saved(&page_, number); }

 private:
  ddprun_progress page_;
};

}  // namespace ddprun::trainer
