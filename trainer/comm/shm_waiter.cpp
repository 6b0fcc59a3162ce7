#include "trainer/comm/shm_waiter.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

// About 50 to 100 microseconds: a peer that runs answers within that. With fewer processors than
// ranks the peer can only run once we sleep.
constexpr int kSpins = 2000;
constexpr int kSpinsCrowded = 50;
constexpr auto kLookEvery = 2ms;  // how late the death of a peer may be noticed

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

void futex_wait(Word32& word, std::uint32_t expected, Clock::duration at_most) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
  const timespec timeout{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &timeout,
            nullptr, 0);
}

void futex_wake(Word32& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

/// `what`, with the bucket's number where there is one.
std::string owed(const char* what, int bucket) {
  return bucket < 0 ? what : fmt::format("{} {}", what, bucket);
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ShmWaiter::ShmWaiter(ShmGroup& group, int rank)
    : group_(group), rank_(rank), spins_(group.crowded ? kSpinsCrowded : kSpins) {}

int ShmWaiter::first_owing(const std::function<bool(int)>& owes) const {
  for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
    if (rank != rank_ && owes(rank)) return rank;
  }
  return -1;
}

bool ShmWaiter::gone(int rank) const {
  return member(rank).block->left.load() != 0 || !member(rank).watch.alive();
}

void ShmWaiter::sleep(std::uint32_t bell, Clock::duration at_most) {
  futex_wait(member(rank_).block->doorbell, bell, std::min<Clock::duration>(at_most, kLookEvery));
}

CommResult ShmWaiter::until_none_owes(const std::function<bool(int)>& owes, int bucket,
                                      const char* what, Clock::time_point deadline) {
  for (int spin = 0; spin < spins_; ++spin) {
    if (first_owing(owes) < 0) return {};
    if (aborted()) return abort_result();
    pause_processor();
  }

  const Clock::time_point began = Clock::now();
  Clock::time_point next_look = began + kLookEvery;
  RankBlock& own = *member(rank_).block;
  while (true) {
    // A rank that raises a word reads `asleep` after it; we set `asleep` and read the words after
    // it. So either we see the word, or we are rung, and the bell read before makes the futex
    // refuse to sleep.
    const std::uint32_t bell = own.doorbell.load();
    own.asleep.store(1);
    int owing = first_owing(owes);
    Clock::time_point now = Clock::now();
    if (owing >= 0 && !aborted() && now < deadline) sleep(bell, deadline - now);
    own.asleep.store(0);

    owing = first_owing(owes);
    if (owing < 0) return {};
    if (aborted()) return abort_result();
    now = Clock::now();
    if (now >= next_look || now >= deadline) {
      next_look = now + kLookEvery;
      for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
        // Its last deeds are visible once it is seen gone, so what it still owes after that stays
        // owed.
        if (rank == rank_ || !gone(rank) || !owes(rank)) continue;
        const bool left = member(rank).block->left.load() != 0;
        abort({rank_, rank, bucket},
              fmt::format("rank {} (pid {}) {} and owes {}", rank, member(rank).watch.pid(),
                          left ? "left" : "is gone", owed(what, bucket)));
        return abort_result();
      }
    }
    if (now >= deadline) {
      const std::string reason = fmt::format(
          "rank {} (pid {}), which still runs or is stopped, owes {} after rank {} waited {:.3f} "
          "s, until "
          "its deadline",
          owing, member(owing).watch.pid(), owed(what, bucket), rank_, seconds(now - began));
      // The others learn which rank was given up, rather than that this one is gone next.
      abort({rank_, owing, bucket}, reason);
      return {CommStatus::timed_out, owing, bucket, reason};
    }
  }
}

void ShmWaiter::ring() {
  for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
    RankBlock& block = *member(rank).block;
    if (rank == rank_ || block.asleep.load() == 0) continue;
    block.doorbell.fetch_add(1);
    futex_wake(block.doorbell);
  }
}

bool ShmWaiter::aborted() const { return member(0).block->abort_word.load() != 0; }

CommResult ShmWaiter::abort_result() const {
  const RankBlock& block = *member(0).block;
  const AbortRecord record = AbortRecord::unpack(block.abort_word.load());
  std::string reason = "no reason was written";
  if (block.reason_written.load() != 0)
    reason.assign(block.reason, ::strnlen(block.reason, kReasonBytes));
  return {
      CommStatus::aborted, record.rank, record.bucket,
      fmt::format("aborted by rank {}{}: {}", record.by,
                  record.bucket >= 0 ? fmt::format(" in bucket {}", record.bucket) : "", reason)};
}

void ShmWaiter::abort(const AbortRecord& record, const std::string& reason) {
  RankBlock& block = *member(0).block;
  std::uint64_t none = 0;
  if (!block.abort_word.compare_exchange_strong(none, record.pack())) return;
  const std::size_t length = std::min(reason.size(), kReasonBytes - 1);
  std::memcpy(block.reason, reason.data(), length);
  block.reason[length] = '\0';
  block.reason_written.store(1);
  ring();
}

}  // namespace ddprun::trainer
