#include "tests/emulated_gpu/fake_nccl_state.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake_nccl {
namespace {

struct SegmentHead {
  std::int64_t to;
  std::uint64_t bytes;
};

}  // namespace

void misused(const char* what) {
  std::fprintf(stderr, "fake NCCL: %s\n", what);
  std::abort();
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
    const SegmentHead head{one.to, one.bytes};
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
    if (head.to == kToAll && operation.take) operation.take(other, at, head.bytes);
    if (head.to == rank) {
      if (next >= mine.size() || mine[next].bytes != head.bytes) {
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

}  // namespace fake_nccl
