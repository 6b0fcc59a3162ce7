// What the handle of an emulated GPU's stream points to: how a library puts work on it.
#pragma once

#include <functional>

namespace ddprun::trainer::test {

struct NativeStream {
  /// `attempt` is called when it is this work's turn, again and again until it returns true. The
  /// GPU's memory can be read and written in it.
  std::function<void(std::function<bool()> attempt)> enqueue;
};

}  // namespace ddprun::trainer::test
