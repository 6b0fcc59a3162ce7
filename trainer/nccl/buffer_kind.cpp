#include "trainer/nccl/buffer_kind.hpp"

#include <cstdlib>

namespace ddprun::trainer::nccl {
namespace {

/// As NCCL reads numbers.
bool is_zero(const char* value) {
  if (value == nullptr) return false;
  char* end = nullptr;
  return std::strtoll(value, &end, 0) == 0 && end != value;
}

}  // namespace

const char* text_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::plain:
      break;
    case BufferKind::registered:
      return "registered";
    case BufferKind::windows:
      return "window";
  }
  return "plain";
}

BufferKind best_buffers(const BufferWishes& wishes, const Functions& call,
                        const std::function<const char*(const char*)>& lookup) {
  const bool has_memory = call.mem_alloc != nullptr && call.mem_free != nullptr;
  const bool has_windows = has_memory && call.comm_window_register != nullptr &&
                           call.comm_window_deregister != nullptr &&
                           !is_zero(lookup("NCCL_WIN_ENABLE"));
  const bool registers = has_memory && call.comm_register != nullptr &&
                         call.comm_deregister != nullptr && !is_zero(lookup("NCCL_LOCAL_REGISTER"));
  const bool is_tree = wishes.order == SumOrder::tree;
  if (!is_tree && wishes.deterministic) return BufferKind::plain;
  if (!is_tree && has_windows) return BufferKind::windows;
  return registers ? BufferKind::registered : BufferKind::plain;
}

}  // namespace ddprun::trainer::nccl
