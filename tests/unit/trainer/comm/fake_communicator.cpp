#include "tests/unit/trainer/comm/fake_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/assert.hpp"
#include "trainer/comm/sum_plan.hpp"

namespace ddprun::trainer {
namespace {

/// One sum, from the first start() of any rank on.
struct FakeSum {
  int bucket = -1;
  Range range;
  std::vector<Range> pieces;  // not summed yet; cut when all ranks have announced
  bool cut = false;
  std::vector<std::vector<float>> kept;  // by plan input: what the range held at start()
};

/// One collective call of all ranks: what each of them brought.
struct FakeMeeting {
  std::map<int, std::vector<std::byte>> brought;
};

}  // namespace

/// All state of the group. Touched only by one thread, in its turn.
class FakeGroup::Scheduler {
 public:
  explicit Scheduler(FakeSettings its_settings);

  void take_turn(int rank);
  void give_turn();
  bool wait(int rank, const std::function<bool()>& happened);
  void pump(int events_max);
  Ticket start(int rank, int bucket, Range range);
  CommResult result(int rank, bool happened, int owing, int bucket) const;
  int first_behind(Ticket ticket) const;
  int first_missing(std::size_t meeting) const;
  void abort(int rank, const std::string& why);
  std::size_t pick(std::size_t count) { return count == 0 ? 0 : random() % count; }

  FakeSettings settings;
  SumPlan plan;
  std::mt19937 random;
  std::vector<std::vector<std::vector<float>>> arenas;  // [rank][slot]
  std::vector<Ticket> started;                          // by rank: what it has called
  std::vector<Ticket> announced;                        // by rank: what others have seen of that
  std::vector<Ticket> complete;                         // by rank: what it has seen to be complete
  std::vector<FakeSum> sums;                            // by ticket - 1
  std::vector<FakeMeeting> meetings;
  std::vector<std::string> mistakes;
  std::string abort_reason;
  bool aborted = false;
  int aborted_by = -1;
  int event_count = 0;
  int activity = 0;  // rises with events and with calls that are not waits: while it rises, waiting
                     // makes sense

 private:
  bool one_event();
  void cut(FakeSum& sum);
  void sum_piece(FakeSum& sum);

  std::mutex mutex_;
  std::condition_variable turned_;
  int turn_ = -1;
  std::vector<bool> running_;
  std::vector<int> idle_;  // by rank: turns in a row without anything having happened
  friend class FakeGroup;
};

FakeGroup::Scheduler::Scheduler(FakeSettings its_settings)
    : settings(its_settings), plan(settings.shards, settings.world_size), random(settings.seed) {
  const auto ranks = static_cast<std::size_t>(settings.world_size);
  for (int rank = 0; rank < settings.world_size; ++rank) {
    const ShardRun run = shard_run(settings.shards, settings.world_size, rank);
    arenas.emplace_back(local_nodes(settings.shards, run).size(),
                        std::vector<float>(settings.arena_floats));
  }
  started.assign(ranks, 0);
  announced.assign(ranks, 0);
  complete.assign(ranks, 0);
  running_.assign(ranks, false);
  idle_.assign(ranks, 0);
}

void FakeGroup::Scheduler::take_turn(int rank) {
  std::unique_lock lock(mutex_);
  turned_.wait(lock, [&] { return turn_ == rank; });
}

void FakeGroup::Scheduler::give_turn() {
  std::vector<int> candidates;
  for (int rank = 0; rank < settings.world_size; ++rank) {
    if (running_[static_cast<std::size_t>(rank)]) candidates.push_back(rank);
  }
  const int next = candidates.empty() ? -1 : candidates[pick(candidates.size())];
  const std::lock_guard lock(mutex_);
  turn_ = next;
  turned_.notify_all();
}

bool FakeGroup::Scheduler::wait(int rank, const std::function<bool()>& happened) {
  // Long enough without anything having happened to any rank: nothing will, so virtual time jumps
  // to the deadline.
  const int patience = 64 * settings.world_size;
  int& idle = idle_[static_cast<std::size_t>(rank)];
  idle = 0;
  while (!aborted && !happened()) {
    const int before = activity;
    pump(1);
    if (aborted || happened()) break;
    give_turn();
    take_turn(rank);
    idle = activity == before ? idle + 1 : 0;
    if (idle > patience) return false;
  }
  return happened();
}

void FakeGroup::Scheduler::pump(int events_max) {
  for (int i = 0; i < events_max && !aborted; ++i) {
    if (!one_event()) return;
    ++event_count;
    ++activity;
    if (event_count == settings.abort_after_events)
      abort(settings.abort_rank, "as the test asked for");
  }
}

bool FakeGroup::Scheduler::one_event() {
  std::vector<std::function<void()>> possible;
  const Ticket seen_by_all = *std::min_element(announced.begin(), announced.end());
  for (std::size_t rank = 0; rank < started.size(); ++rank) {
    if (announced[rank] < started[rank]) possible.push_back([this, rank] { ++announced[rank]; });
    const Ticket next = complete[rank];
    if (next < seen_by_all && sums[next].cut && sums[next].pieces.empty()) {
      possible.push_back([this, rank] { ++complete[rank]; });
    }
  }
  for (Ticket ticket = 0; ticket < seen_by_all; ++ticket) {
    FakeSum& sum = sums[ticket];
    if (!sum.cut) possible.push_back([this, &sum] { cut(sum); });
    if (!sum.pieces.empty()) possible.push_back([this, &sum] { sum_piece(sum); });
  }
  if (possible.empty()) return false;
  possible[pick(possible.size())]();
  return true;
}

void FakeGroup::Scheduler::cut(FakeSum& sum) {
  sum.cut = true;
  for (std::size_t at = sum.range.begin; at < sum.range.end;) {
    const std::size_t end =
        std::min(sum.range.end, at + 1 + pick(1 + (sum.range.end - sum.range.begin) / 2));
    sum.pieces.push_back({at, end});
    at = end;
  }
}

void FakeGroup::Scheduler::sum_piece(FakeSum& sum) {
  const std::size_t which = pick(sum.pieces.size());
  const Range piece = sum.pieces[which];
  sum.pieces.erase(sum.pieces.begin() + static_cast<std::ptrdiff_t>(which));
  std::vector<const float*> inputs;
  std::vector<float*> outputs;
  for (std::size_t i = 0; i < plan.inputs().size(); ++i) {
    const PlanInput& input = plan.inputs()[i];
    const auto& arena =
        arenas[static_cast<std::size_t>(input.rank)][static_cast<std::size_t>(input.slot)];
    inputs.push_back(arena.data());
    const float* kept = sum.kept[i].data() + (piece.begin - sum.range.begin);
    if (std::memcmp(kept, arena.data() + piece.begin, (piece.end - piece.begin) * sizeof(float)) !=
        0) {
      mistakes.push_back(
          fmt::format("rank {} changed bucket {} after it was started", input.rank, sum.bucket));
    }
  }
  for (auto& slots : arenas) outputs.push_back(slots[0].data());
  std::vector<float> scratch((static_cast<std::size_t>(plan.scratch_blocks()) + 1) *
                             SumPlan::kBlockFloats);
  plan.sum(inputs, outputs, piece.begin, piece.end, scratch);
}

Ticket FakeGroup::Scheduler::start(int rank, int bucket, Range range) {
  const Ticket ticket = ++started[static_cast<std::size_t>(rank)];
  if (ticket > sums.size())
    sums.push_back(
        {bucket, range, {}, false, std::vector<std::vector<float>>(plan.inputs().size())});
  FakeSum& sum = sums[ticket - 1];
  if (sum.bucket != bucket || sum.range.begin != range.begin || sum.range.end != range.end) {
    mistakes.push_back(fmt::format(
        "rank {} started bucket {} where another started bucket {}, or with another range", rank,
        bucket, sum.bucket));
    range = sum.range;
  }
  if (ticket - complete[static_cast<std::size_t>(rank)] > static_cast<Ticket>(kStartedMax)) {
    mistakes.push_back(fmt::format("rank {} started more than {} sums", rank, kStartedMax));
  }
  for (std::size_t i = 0; i < plan.inputs().size(); ++i) {
    const PlanInput& input = plan.inputs()[i];
    if (input.rank != rank) continue;
    const auto& arena =
        arenas[static_cast<std::size_t>(rank)][static_cast<std::size_t>(input.slot)];
    sum.kept[i].assign(arena.begin() + static_cast<std::ptrdiff_t>(range.begin),
                       arena.begin() + static_cast<std::ptrdiff_t>(range.end));
  }
  return ticket;
}

CommResult FakeGroup::Scheduler::result(int rank, bool happened, int owing, int bucket) const {
  if (happened) return {};  // what is complete stays so, also if the group was aborted since
  if (aborted) {
    return {CommStatus::aborted, settings.abort_rank, bucket,
            fmt::format("aborted by rank {}: {}", aborted_by, abort_reason)};
  }
  return {CommStatus::timed_out, owing, bucket,
          fmt::format("rank {} waited until its deadline for rank {} in bucket {}", rank, owing,
                      bucket)};
}

int FakeGroup::Scheduler::first_behind(Ticket ticket) const {
  for (std::size_t rank = 0; rank < started.size(); ++rank) {
    if (started[rank] < ticket) return static_cast<int>(rank);
  }
  return -1;
}

int FakeGroup::Scheduler::first_missing(std::size_t meeting) const {
  for (int rank = 0; rank < settings.world_size; ++rank) {
    if (!meetings[meeting].brought.contains(rank)) return rank;
  }
  return -1;
}

void FakeGroup::Scheduler::abort(int rank, const std::string& why) {
  if (aborted) return;
  aborted = true;
  aborted_by = rank;
  abort_reason = why;
}

/// One rank's view.
class FakeGroup::Rank : public Communicator {
 public:
  Rank(Scheduler& scheduler, int rank) : all_(scheduler), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int world_size() const override { return all_.settings.world_size; }
  [[nodiscard]] std::span<float> arena(int slot) override {
    return all_.arenas[static_cast<std::size_t>(rank_)].at(static_cast<std::size_t>(slot));
  }

  Ticket start(int bucket, Range range) override {
    pass();
    return all_.start(rank_, bucket, range);
  }

  void progress() override { pass(); }

  CommResult finish(Ticket ticket, Clock::time_point /*deadline*/) override {
    const bool happened =
        all_.wait(rank_, [&] { return all_.complete[static_cast<std::size_t>(rank_)] >= ticket; });
    return all_.result(rank_, happened, all_.first_behind(ticket), all_.sums[ticket - 1].bucket);
  }

  CommResult broadcast(std::span<std::byte> bytes, int root,
                       Clock::time_point /*deadline*/) override {
    return meet(bytes, [&](const FakeMeeting& meeting) {
      const auto& sent = meeting.brought.at(root);
      std::copy(sent.begin(), sent.end(), bytes.begin());
    });
  }

  CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                        Clock::time_point /*deadline*/) override {
    DDPRUN_ASSERT(all.size() == mine.size() * static_cast<std::size_t>(world_size()),
                  "one piece for each rank");
    return meet(mine, [&](const FakeMeeting& meeting) {
      auto at = all.begin();
      for (const auto& [rank, piece] : meeting.brought)
        at = std::copy(piece.begin(), piece.end(), at);
    });
  }

  CommResult barrier(Clock::time_point /*deadline*/) override {
    return meet({}, [](const FakeMeeting&) {});
  }

  void abort(const std::string& reason) override { all_.abort(rank_, reason); }

 private:
  /// Something may happen, and somebody else may run.
  void pass() {
    ++all_.activity;
    all_.pump(static_cast<int>(all_.pick(4)));
    all_.give_turn();
    all_.take_turn(rank_);
  }

  CommResult meet(std::span<const std::byte> mine,
                  const std::function<void(const FakeMeeting&)>& take) {
    if (all_.aborted) return all_.result(rank_, false, -1, -1);
    const std::size_t number = met_++;
    ++all_.activity;
    if (number == all_.meetings.size()) all_.meetings.emplace_back();
    all_.meetings[number].brought[rank_].assign(mine.begin(), mine.end());
    const bool happened = all_.wait(rank_, [&] { return all_.first_missing(number) < 0; });
    if (happened) take(all_.meetings[number]);
    return all_.result(rank_, happened, all_.first_missing(number), -1);
  }

  Scheduler& all_;
  int rank_;
  std::size_t met_ = 0;
};

FakeGroup::FakeGroup(FakeSettings settings) : scheduler_(std::make_unique<Scheduler>(settings)) {}
FakeGroup::~FakeGroup() = default;

void FakeGroup::run(const std::function<void(Communicator&)>& body) {
  Scheduler& all = *scheduler_;
  all.running_.assign(all.running_.size(), true);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < all.settings.world_size; ++rank) {
    threads.emplace_back([&all, &body, rank] {
      Rank communicator(all, rank);
      all.take_turn(rank);
      body(communicator);
      all.running_[static_cast<std::size_t>(rank)] = false;
      ++all.activity;
      all.give_turn();
    });
  }
  all.give_turn();
  for (std::thread& thread : threads) thread.join();
}

const std::vector<std::string>& FakeGroup::mistakes() const { return scheduler_->mistakes; }
int FakeGroup::events() const { return scheduler_->event_count; }

}  // namespace ddprun::trainer
