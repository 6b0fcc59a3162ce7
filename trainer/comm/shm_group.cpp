#include "trainer/comm/shm_group.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/random.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

#include "trainer/comm/exchange.hpp"
#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kAnnouncementTag = "ddprun-shm-1";

template <class Number>
bool read_number(const std::map<std::string, std::string>& fields, const char* name,
                 Number& number) {
  const auto field = fields.find(name);
  if (field == fields.end()) return false;
  const char* end = field->second.data() + field->second.size();
  const auto [stop, error] = std::from_chars(field->second.data(), end, number);
  return error == std::errc() && stop == end;
}

std::uint64_t random_word() {
  std::uint64_t word = 0;
  // Only distinguishes segments from one another; the process' own addresses and pid already do
  // most of that.
  if (::getrandom(&word, sizeof word, GRND_NONBLOCK) != sizeof word)
    word = static_cast<std::uint64_t>(::getpid());
  return word;
}

Member mapped(SharedSegment segment, const SegmentLayout& layout) {
  Member member;
  member.segment = std::move(segment);
  std::byte* base = member.segment.data();
  member.block = reinterpret_cast<RankBlock*>(base);
  member.staging = base + layout.staging;
  for (int slot = 0; slot < layout.slots; ++slot) {
    const std::size_t offset = layout.arenas + static_cast<std::size_t>(slot) * layout.arena_stride;
    member.arenas.push_back(reinterpret_cast<float*>(base + offset));
  }
  return member;
}

/// Fills in a block of zeroes. The atomics in it are zero, which is where they start.
void write_block(RankBlock& block, const CommOptions& options, std::uint64_t nonce) {
  block.magic = kShmMagic;
  block.nonce = nonce;
  block.rank = static_cast<std::uint64_t>(options.rank);
  cpu_set_t mask;
  static_assert(sizeof mask == sizeof block.cpu_mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0)
    std::memcpy(block.cpu_mask, &mask, sizeof mask);
}

/// True when the ranks together may use fewer processors than there are ranks. Ranks pinned to one
/// each are not crowded.
bool is_crowded(const std::vector<Member>& members) {
  int processors = 0;
  for (std::size_t word = 0; word < kCpuMaskWords; ++word) {
    std::uint64_t all = 0;
    for (const Member& member : members) all |= member.block->cpu_mask[word];
    processors += std::popcount(all);
  }
  return processors < static_cast<int>(members.size());
}

CommResult failure(CommStatus status, int rank, std::string detail) {
  return {status, rank, -1, std::move(detail)};
}

GroupSetup refuse(int rank, std::string detail) {
  GroupSetup setup;
  setup.result = failure(CommStatus::aborted, rank, std::move(detail));
  setup.refused = true;
  return setup;
}

GroupSetup fail(CommStatus status, int rank, std::string detail) {
  GroupSetup setup;
  setup.result = failure(status, rank, std::move(detail));
  return setup;
}

GroupSetup fail_exchange(ErrorCode error, int rank, const std::string& what) {
  GroupSetup setup;
  setup.result = exchange_failure(error, rank, what);
  return setup;
}

std::string key_of(const CommOptions& options, int rank) {
  return fmt::format("{}/shm/{}", options.group, rank);
}

/// Maps the segment of `rank` and checks that it is what was announced and fits ours.
GroupSetup map_peer(const CommOptions& options, const ProcessIdentity& self, int rank,
                    const std::string& text, Member& member) {
  const auto announced = Announcement::parse(text);
  if (!announced) {
    return refuse(
        rank,
        fmt::format(
            "key {} in the store is not what a rank of this version announces: start all ranks "
            "with the same program",
            key_of(options, rank)));
  }
  if (announced->process.boot_id != self.boot_id) {
    return refuse(
        rank,
        fmt::format("rank {} runs on another host than rank {}; several hosts: not in this version",
                    rank, options.rank));
  }
  if (announced->process.pid_namespace != self.pid_namespace) {
    return refuse(
        rank, fmt::format(
                  "rank {} runs in another container (PID namespace) than rank {}: start all ranks "
                  "in one; several hosts: not in this version",
                  rank, options.rank));
  }
  if (announced->world_size != options.world_size || announced->shards != options.shards ||
      announced->arena_floats != options.arena_floats) {
    return refuse(
        rank,
        fmt::format(
            "rank {} has world size {}, {} shards and {} gradient floats where rank {} has {}, "
            "{} and {}: start all ranks with the same options",
            rank, announced->world_size, announced->shards, announced->arena_floats, options.rank,
            options.world_size, options.shards, options.arena_floats));
  }
  auto segment = SharedSegment::open(announced->process.pid, announced->fd, announced->bytes,
                                     announced->inode);
  if (!segment) {
    return fail(CommStatus::aborted, rank,
                fmt::format("rank {} (pid {}) announced shared memory that cannot be opened: {}; "
                            "it has ended, or runs "
                            "as another user",
                            rank, announced->process.pid, segment.error().message()));
  }
  const SegmentLayout layout(rank, options.world_size, options.shards, options.arena_floats);
  const auto* block = reinterpret_cast<const RankBlock*>(segment->data());
  if (segment->bytes() != layout.bytes || block->magic != kShmMagic ||
      block->nonce != announced->nonce || block->rank != static_cast<std::uint64_t>(rank)) {
    return refuse(
        rank, fmt::format(
                  "the shared memory of rank {} (pid {}) has another layout: start all ranks with "
                  "the same program",
                  rank, announced->process.pid));
  }
  member = mapped(std::move(*segment), layout);
  member.watch = ProcessWatch(announced->process);
  return {};
}

}  // namespace

std::string Announcement::text() const {
  return fmt::format(
      "{} boot={} pidns={} pid={} start={} fd={} bytes={} inode={} nonce={} world={} shards={} "
      "floats={}",
      kAnnouncementTag, process.boot_id, process.pid_namespace, process.pid, process.start_time, fd,
      bytes, inode, nonce, world_size, shards, arena_floats);
}

std::optional<Announcement> Announcement::parse(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word != kAnnouncementTag) return std::nullopt;
  std::map<std::string, std::string> fields;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  Announcement announcement;
  announcement.process.boot_id = fields["boot"];
  announcement.process.pid_namespace = fields["pidns"];
  const bool whole = read_number(fields, "pid", announcement.process.pid) &&
                     read_number(fields, "start", announcement.process.start_time) &&
                     read_number(fields, "fd", announcement.fd) &&
                     read_number(fields, "bytes", announcement.bytes) &&
                     read_number(fields, "inode", announcement.inode) &&
                     read_number(fields, "nonce", announcement.nonce) &&
                     read_number(fields, "world", announcement.world_size) &&
                     read_number(fields, "shards", announcement.shards) &&
                     read_number(fields, "floats", announcement.arena_floats);
  if (!whole || announcement.process.pid <= 0 || announcement.fd < 0) return std::nullopt;
  return announcement;
}

GroupSetup join_group(const CommOptions& options, Exchange& exchange, Clock::time_point deadline) {
  const SegmentLayout layout(options.rank, options.world_size, options.shards,
                             options.arena_floats);
  auto created = SharedSegment::create(layout.bytes);
  if (!created) {
    return fail(CommStatus::aborted, options.rank,
                fmt::format("rank {}: {} MB of shared memory: {}", options.rank, layout.bytes >> 20,
                            created.error().message()));
  }
  GroupSetup setup;
  setup.group.members.resize(static_cast<std::size_t>(options.world_size));
  Member& own = setup.group.members[static_cast<std::size_t>(options.rank)];
  own = mapped(std::move(*created), layout);

  Announcement announcement;
  announcement.process = own_identity();
  announcement.fd = own.segment.fd();
  announcement.bytes = layout.bytes;
  announcement.inode = own.segment.inode();
  announcement.nonce = random_word();
  announcement.world_size = options.world_size;
  announcement.shards = options.shards;
  announcement.arena_floats = options.arena_floats;
  write_block(*own.block, options, announcement.nonce);

  const std::string own_key = key_of(options, options.rank);
  if (const auto announced = exchange.set(own_key, announcement.text(), deadline); !announced) {
    return fail_exchange(announced.error(), options.rank, fmt::format("storing key {}", own_key));
  }
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (rank == options.rank) continue;
    const std::string key = key_of(options, rank);
    const auto text = exchange.get(key, deadline);
    if (!text) {
      own.block->left.store(1);
      return fail_exchange(text.error(), rank,
                           fmt::format("waiting for rank {} (key {})", rank, key));
    }
    GroupSetup peer = map_peer(options, announcement.process, rank, *text,
                               setup.group.members[static_cast<std::size_t>(rank)]);
    if (!peer.result.ok()) {
      own.block->left.store(1);  // for those that have mapped this rank already and wait for it
      return peer;
    }
  }
  const SegmentLayout first(0, options.world_size, options.shards, options.arena_floats);
  setup.group.chunk_words =
      reinterpret_cast<Word64*>(setup.group.members.front().segment.data() + first.chunk_words);
  setup.group.crowded = is_crowded(setup.group.members);
  return setup;
}

}  // namespace ddprun::trainer
