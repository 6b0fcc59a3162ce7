#include "trainer/comm/shm_communicator.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

namespace ddprun::trainer {

ShmSums::ShmSums(const CommOptions& options, ShmGroup& group, ShmWaiter& waiter)
    : options_(options),
      group_(group),
      waiter_(waiter),
      plan_(options.shards, options.world_size),
      scratch_((static_cast<std::size_t>(plan_.scratch_blocks()) + 1) * SumPlan::kBlockFloats),
      started_(kStartedMax) {
  for (const PlanInput& input : plan_.inputs()) {
    const Member& member = group_.members[static_cast<std::size_t>(input.rank)];
    inputs_.push_back(member.arenas[static_cast<std::size_t>(input.slot)]);
  }
  for (Member& one : group_.members) outputs_.push_back(one.arenas[0]);
}

Word64& ShmSums::chunk_word(Ticket ticket, int chunk) {
  const std::size_t row = static_cast<std::size_t>(options_.world_size) * kChunksPerRank;
  return group_.chunk_words[(ticket % kStartedMax) * row + static_cast<std::size_t>(chunk)];
}

void ShmSums::phase(CommPhase at, int bucket) {
  if (options_.on_phase) options_.on_phase(at, bucket);
}

Ticket ShmSums::start(int bucket, Range range) {
  DDPRUN_ASSERT(range.begin <= range.end && range.end <= options_.arena_floats,
                "a range of the arena");
  DDPRUN_ASSERT(last_started_ - complete_ < kStartedMax,
                "at most kStartedMax sums are started and not finished");
  phase(CommPhase::before_start, bucket);
  ++last_started_;
  started(last_started_) = {bucket, Chunks(range, options_.world_size)};
  group_.members[static_cast<std::size_t>(options_.rank)].block->started.store(last_started_);
  waiter_.ring();
  phase(CommPhase::after_ready, bucket);
  return last_started_;
}

void ShmSums::progress() {
  if (own_share_ < last_started_ && !waiter_.aborted()) sum_own_share();
}

CommResult ShmSums::finish(Ticket ticket, Clock::time_point deadline) {
  DDPRUN_ASSERT(ticket <= last_started_, "a ticket that start() returned");
  while (true) {
    // A complete sum is done even if the group was aborted since: that it is complete is the same
    // on every rank.
    advance_complete();
    if (complete_ >= ticket) return {};
    if (waiter_.aborted()) return waiter_.abort_result();
    sum_own_share();
    sum_unclaimed(ticket);
    advance_complete();
    if (complete_ >= ticket) return {};

    CommResult result = wait_for(complete_ + 1, deadline);
    if (!result.ok()) return result;
  }
}

/// Until no other rank is behind with the sum, whatever else may be left to do here.
CommResult ShmSums::wait_for(Ticket ticket, Clock::time_point deadline) {
  const Started& sum = started(ticket);
  const bool all_ready = ready_everywhere() >= ticket;
  const auto is_behind = [&](int rank) {
    const Member& member = group_.members[static_cast<std::size_t>(rank)];
    if (member.block->started.load() < ticket) return true;
    if (!all_ready) return false;  // nothing can be claimed yet; once it can, we have work to do
    for (int chunk = 0; chunk < sum.chunks.count; ++chunk) {
      const ChunkWord word = ChunkWord::unpack(chunk_word(ticket, chunk).load());
      if (word.ticket == ticket && !word.done && word.rank == rank) return true;
    }
    return false;
  };
  const char* what = all_ready ? "its part of the sum of bucket" : "the gradients of bucket";
  return waiter_.until_none_is_behind(is_behind, sum.bucket, what, deadline);
}

Ticket ShmSums::ready_everywhere() const {
  Ticket ready = last_started_;
  for (const Member& one : group_.members)
    ready = std::min<Ticket>(ready, one.block->started.load());
  return ready;
}

bool ShmSums::all_chunks_done(Ticket ticket) {
  for (int chunk = 0; chunk < started(ticket).chunks.count; ++chunk) {
    const ChunkWord word = ChunkWord::unpack(chunk_word(ticket, chunk).load());
    if (word.ticket < ticket || (word.ticket == ticket && !word.done)) return false;
  }
  return true;
}

void ShmSums::advance_complete() {
  const Ticket ready = ready_everywhere();
  while (complete_ < ready && all_chunks_done(complete_ + 1)) ++complete_;
}

void ShmSums::sum_own_share() {
  const Ticket ready = ready_everywhere();
  for (; own_share_ < ready; ++own_share_) {
    const Ticket ticket = own_share_ + 1;
    const int count = started(ticket).chunks.count;
    for (int chunk = 0; chunk < count; ++chunk) {
      if (chunk * options_.world_size / count == options_.rank) try_chunk(ticket, chunk);
    }
  }
}

void ShmSums::sum_unclaimed(Ticket up_to) {
  const Ticket ready = std::min(ready_everywhere(), up_to);
  for (Ticket ticket = complete_ + 1; ticket <= ready; ++ticket) {
    // From behind: the rank that owns the share works from the front.
    for (int chunk = started(ticket).chunks.count; chunk-- > 0;) try_chunk(ticket, chunk);
  }
}

void ShmSums::try_chunk(Ticket ticket, int chunk) {
  Word64& word = chunk_word(ticket, chunk);
  std::uint64_t seen = word.load();
  const ChunkWord claim{ticket, options_.rank, false};
  if (ChunkWord::unpack(seen).ticket >= ticket || !word.compare_exchange_strong(seen, claim.pack()))
    return;

  const Started& sum = started(ticket);
  const Range range = sum.chunks.chunk(chunk);
  const std::size_t middle = range.begin + (range.end - range.begin) / 2;
  if (options_.on_phase) {
    sum_range({range.begin, middle});
    phase(CommPhase::in_slice, sum.bucket);
    sum_range({middle, range.end});
  } else {
    sum_range(range);
  }
  word.store(ChunkWord{ticket, options_.rank, true}.pack());
  waiter_.ring();
  phase(CommPhase::after_slice, sum.bucket);
}

void ShmSums::sum_range(Range range) {
  plan_.sum(inputs_, outputs_, range.begin, range.end, scratch_);
}

ShmCommunicator::ShmCommunicator(CommOptions options, ShmGroup group)
    : options_(std::move(options)),
      group_(std::move(group)),
      waiter_(group_, options_.rank, options_.is_given_up),
      sums_(options_, group_, waiter_) {}

ShmCommunicator::~ShmCommunicator() {
  own().left.store(1);
  waiter_.ring();
}

CommResult ShmCommunicator::meet(Clock::time_point deadline) {
  CommResult result = enter_barrier(deadline);
  member(options_.rank).segment.close_fd();
  return result;
}

std::span<float> ShmCommunicator::arena(int slot) {
  return {member(options_.rank).arenas.at(static_cast<std::size_t>(slot)), options_.arena_floats};
}

std::size_t ShmCommunicator::shared_arena_bytes() const {
  const Member& own = group_.members[static_cast<std::size_t>(options_.rank)];
  return own.arenas.size() * options_.arena_floats * sizeof(float);
}

void ShmCommunicator::phase(CommPhase at) {
  if (options_.on_phase) options_.on_phase(at, -1);
}

void ShmCommunicator::abort(const std::string& reason) {
  waiter_.abort({options_.rank, -1, -1}, reason);
}

void ShmCommunicator::leave_note(std::uint64_t number, std::span<const std::byte> note) {
  DDPRUN_ASSERT(number != 0 && note.size() <= kNoteBytes, "a note fits its place");
  NoteSlot& slot = own().notes[number % kNotesKept];
  slot.number.store(0);
  std::memcpy(slot.bytes, note.data(), note.size());
  slot.number.store(number);
}

bool ShmCommunicator::read_note(int rank, std::uint64_t number, std::span<std::byte> note) const {
  const RankBlock& block = *group_.members[static_cast<std::size_t>(rank)].block;
  const NoteSlot& slot = block.notes[number % kNotesKept];
  if (number == 0 || note.size() > kNoteBytes || slot.number.load() != number) return false;
  std::memcpy(note.data(), slot.bytes, note.size());
  return slot.number.load() == number;
}

CommResult ShmCommunicator::barrier(Clock::time_point deadline) {
  if (waiter_.aborted()) return waiter_.abort_result();
  phase(CommPhase::in_barrier);
  return enter_barrier(deadline);
}

CommResult ShmCommunicator::enter_barrier(Clock::time_point deadline) {
  const std::uint64_t round = ++round_;
  own().consumed.store(round);
  own().posted.store(round);
  waiter_.ring();
  const auto is_behind = [&](int rank) { return member(rank).block->posted.load() < round; };
  return waiter_.until_none_is_behind(is_behind, -1, "a barrier", deadline);
}

/// Until the half of this rank's staging memory that `round` uses is needed by no rank.
CommResult ShmCommunicator::await_staging(std::uint64_t round, Clock::time_point deadline) {
  const auto is_behind = [&](int rank) { return member(rank).block->consumed.load() + 2 < round; };
  return waiter_.until_none_is_behind(is_behind, -1, "reading what was sent to it", deadline);
}

CommResult ShmCommunicator::broadcast(std::span<std::byte> bytes, int root,
                                      Clock::time_point deadline) {
  DDPRUN_ASSERT(0 <= root && root < options_.world_size, "the root is a rank");
  if (waiter_.aborted()) return waiter_.abort_result();
  for (std::size_t at = 0; at < bytes.size(); at += kStagingHalfBytes) {
    const std::span<std::byte> piece =
        bytes.subspan(at, std::min(kStagingHalfBytes, bytes.size() - at));
    const std::uint64_t round = ++round_;
    if (root == options_.rank) {
      CommResult result = await_staging(round, deadline);
      if (!result.ok()) return result;
      std::memcpy(staging(root, round), piece.data(), piece.size());
      phase(CommPhase::in_broadcast);
      own().consumed.store(round);
      own().posted.store(round);
    } else {
      // Every rank posts every round, so that `posted` says where it is.
      own().posted.store(round);
      const auto is_behind = [&](int rank) {
        return rank == root && member(rank).block->posted.load() < round;
      };
      CommResult result = waiter_.until_none_is_behind(is_behind, -1, "a broadcast", deadline);
      if (!result.ok()) return result;
      std::memcpy(piece.data(), staging(root, round), piece.size());
      phase(CommPhase::in_broadcast);
      own().consumed.store(round);
    }
    waiter_.ring();
  }
  return {};
}

CommResult ShmCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Clock::time_point deadline) {
  DDPRUN_ASSERT(all.size() == mine.size() * static_cast<std::size_t>(options_.world_size),
                "one piece for each rank");
  if (waiter_.aborted()) return waiter_.abort_result();
  for (std::size_t at = 0; at < mine.size(); at += kStagingHalfBytes) {
    const std::size_t bytes = std::min(kStagingHalfBytes, mine.size() - at);
    const std::uint64_t round = ++round_;
    CommResult result = await_staging(round, deadline);
    if (!result.ok()) return result;
    std::memcpy(staging(options_.rank, round), mine.data() + at, bytes);
    own().posted.store(round);
    waiter_.ring();
    const auto is_behind = [&](int rank) { return member(rank).block->posted.load() < round; };
    result = waiter_.until_none_is_behind(is_behind, -1, "an all-gather", deadline);
    if (!result.ok()) return result;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      const std::size_t offset = static_cast<std::size_t>(rank) * mine.size() + at;
      std::memcpy(all.data() + offset, staging(rank, round), bytes);
    }
    own().consumed.store(round);
    waiter_.ring();
  }
  return {};
}

}  // namespace ddprun::trainer
