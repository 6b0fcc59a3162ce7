#include "tests/emulated_gpu/fake_nccl_state.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/emulated_gpu/native_memory.hpp"

namespace fake_nccl {
namespace {

constexpr std::size_t kWindowAlignment = 4096;

struct SegmentHead {
  std::int64_t to;
  std::uint64_t bytes;
  Place place;
};

}  // namespace

void misused(const char* what) {
  std::fprintf(stderr, "fake NCCL: %s\n", what);
  std::abort();
}

std::byte* Allocated::allocate(std::size_t bytes) {
  ddprun::trainer::test::NativeMemory* const owner = ddprun::trainer::test::native_memory();
  std::byte* const memory = owner == nullptr ? nullptr : owner->allocate(bytes);
  const std::lock_guard lock(mutex_);
  if (memory != nullptr) pieces_[memory] = {bytes, owner, 0};
  return memory;
}

void Allocated::free(std::byte* memory) {
  Piece piece;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(memory);
    if (found == pieces_.end()) misused("memory was freed that it has not allocated");
    if (found->second.registrations > 0) misused("memory was freed that a communicator knows");
    piece = found->second;
    pieces_.erase(found);
  }
  piece.owner->release(memory);
}

bool Allocated::register_in(const std::byte* data, std::size_t bytes, int change) {
  const std::lock_guard lock(mutex_);
  auto found = pieces_.upper_bound(data);
  if (found == pieces_.begin()) return false;
  --found;
  if (data + bytes > found->first + found->second.bytes) return false;
  found->second.registrations += change;
  return true;
}

Allocated& allocated() {
  static Allocated all;
  return all;
}

bool State::all(std::atomic<std::uint64_t> RankBoard::*counter, std::uint64_t least) {
  for (int one = 0; one < ranks; ++one)
    if ((board->rank(one).*counter).load() < least) return false;
  return true;
}

void State::post(const Operation& operation, std::uint64_t number) {
  std::byte* at = board->bytes(rank);
  const std::byte* const end = at + kBytesOfRank;
  for (const Sent& one : operation.sent) {
    const SegmentHead head{one.to, one.bytes, place_of(one.from)};
    if (static_cast<std::size_t>(end - at) < sizeof head + one.bytes) std::abort();
    std::memcpy(at, &head, sizeof head);
    std::memcpy(at + sizeof head, one.from, one.bytes);
    at += sizeof head + one.bytes;
  }
  board->rank(rank).bytes = static_cast<std::uint64_t>(at - board->bytes(rank));
  board->rank(rank).posted.store(number);
}

void State::read_from(int other, const Operation& operation) {
  std::vector<Received> mine;
  for (const Received& one : operation.received)
    if (one.from == other) mine.push_back(one);
  std::size_t next = 0;
  const std::byte* at = board->bytes(other);
  const std::byte* const end = at + board->rank(other).bytes;
  while (at < end) {
    SegmentHead head{};
    std::memcpy(&head, at, sizeof head);
    at += sizeof head;
    if (head.to == kToAll && operation.take) {
      // Sums are in place: what this rank sends is what it receives into.
      if (!operation.sent.empty() && !(place_of(operation.sent.front().from) == head.place)) {
        error = invalid_usage;  // real NCCL does anything then
        return;
      }
      operation.take(other, at, head.bytes);
    }
    if (head.to == rank) {
      if (next >= mine.size() || mine[next].bytes != head.bytes ||
          place_of(mine[next].to).kind != head.place.kind) {
        error = invalid_usage;  // the two do not fit together: real NCCL would hang
        return;
      }
      std::memcpy(mine[next++].to, at, head.bytes);
    }
    at += head.bytes;
  }
  if (next != mine.size()) error = invalid_usage;
}

bool State::attempt(Operation& operation, std::uint64_t number) {
  if (is_aborted) return true;
  if (plan.has("hang", number)) return false;
  if (plan.has("kill", number)) std::raise(SIGKILL);
  if (plan.has("error", number)) {
    error = remote_error;
    return false;
  }
  if (!operation.is_posted) {
    if (!all(&RankBoard::read, number - 1)) return false;
    post(operation, number);
    operation.is_posted = true;
  }
  if (!all(&RankBoard::posted, number)) return false;
  for (int other = 0; other < ranks; ++other) read_from(other, operation);
  board->rank(rank).read.store(number);
  return true;
}

Place State::place_of(const void* address) const {
  for (const auto& one : known) {
    if (!one->holds(address)) continue;
    if (!one->is_window) return {Place::registered, 0};
    return {Place::window,
            static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - one->data)};
  }
  return {};
}

Registered* State::add(const void* data, std::size_t bytes, bool is_window) {
  const auto* const begin = static_cast<const std::byte*>(data);
  if (!allocated().register_in(begin, bytes, 1)) return nullptr;
  return known.emplace_back(std::make_unique<Registered>(Registered{begin, bytes, is_window}))
      .get();
}

bool State::remove(const void* handle) {
  for (auto one = known.begin(); one != known.end(); ++one) {
    if (one->get() != handle) continue;
    allocated().register_in((*one)->data, (*one)->bytes, -1);
    known.erase(one);
    return true;
  }
  return false;
}

void State::remove_all() {
  take_pending();
  while (!known.empty()) remove(known.back().get());
}

bool State::begin_window(void** handle, const void* data, std::size_t bytes) {
  pending = {handle, static_cast<const std::byte*>(data), bytes};
  if (allocated().register_in(pending.data, bytes, 1)) return true;
  pending = {};
  return false;
}

PendingWindow State::take_pending() {
  if (pending.handle != nullptr) allocated().register_in(pending.data, pending.bytes, -1);
  return std::exchange(pending, {});
}

void State::look_at_window() {
  if (pending.handle == nullptr || !all(&RankBoard::windows, windows)) return;
  const PendingWindow window = take_pending();
  for (int one = 0; one < ranks; ++one)
    if (board->rank(one).window_bytes[windows - 1] != window.bytes) error = invalid_argument;
  if (reinterpret_cast<std::uintptr_t>(window.data) % kWindowAlignment != 0)
    error = invalid_argument;
  if (error == success) *window.handle = add(window.data, window.bytes, true);
  if (error == success && *window.handle == nullptr) error = invalid_argument;
}

}  // namespace fake_nccl
