#include "trainer/comm/shm_waiter.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

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
std::string named(const char* what, int bucket) {
  return bucket < 0 ? what : fmt::format("{} {}", what, bucket);
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ShmWaiter::ShmWaiter(ShmGroup& group, int rank, std::function<bool()> is_given_up)
    : group_(group),
      rank_(rank),
      spins_(group.crowded ? kSpinsCrowded : kSpins),
      is_given_up_(std::move(is_given_up)) {}

int ShmWaiter::first_behind(const std::function<bool(int)>& is_behind) const {
  for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
    if (rank != rank_ && is_behind(rank)) return rank;
  }
  return -1;
}

bool ShmWaiter::gone(int rank) const {
  return member(rank).block->left.load() != 0 || !member(rank).watch.alive();
}

void ShmWaiter::sleep(std::uint32_t bell, Clock::duration at_most) {
  futex_wait(member(rank_).block->doorbell, bell, std::min<Clock::duration>(at_most, kLookEvery));
}

CommResult ShmWaiter::until_none_is_behind(const std::function<bool(int)>& is_behind, int bucket,
                                           const char* what, Clock::time_point deadline) {
  for (int spin = 0; spin < spins_; ++spin) {
    if (first_behind(is_behind) < 0) return {};
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
    int behind = first_behind(is_behind);
    Clock::time_point now = Clock::now();
    if (behind >= 0 && !aborted() && now < deadline) sleep(bell, deadline - now);
    own.asleep.store(0);

    behind = first_behind(is_behind);
    if (behind < 0) return {};
    if (aborted()) return abort_result();
    now = Clock::now();
    if (now >= next_look || now >= deadline) {
      next_look = now + kLookEvery;
      if (is_given_up_ && is_given_up_()) {
        abort({rank_, -1, bucket}, "it leaves the round");
        return abort_result();
      }
      for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
        // All that it did is visible once it is seen gone, so what is missing then stays missing.
        if (rank == rank_ || !gone(rank) || !is_behind(rank)) continue;
        const bool left = member(rank).block->left.load() != 0;
        abort({rank_, rank, bucket},
              fmt::format("rank {} (pid {}) {} before it finished {}", rank,
                          member(rank).watch.pid(), left ? "left" : "ended", named(what, bucket)));
        return abort_result();
      }
    }
    if (now >= deadline) {
      const std::string reason = fmt::format(
          "rank {} (pid {}), which still runs or is suspended, has not finished {} after rank {} "
          "waited {:.3f} s, until its deadline",
          behind, member(behind).watch.pid(), named(what, bucket), rank_, seconds(now - began));
      // The others learn which rank was given up, rather than that this one is gone next.
      abort({rank_, behind, bucket}, reason);
      return {CommStatus::timed_out, behind, bucket, reason};
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
