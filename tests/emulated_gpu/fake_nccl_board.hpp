// The memory through which the ranks of the fake NCCL give each other what they send.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fake_nccl {

constexpr int kRanksMax = 16;
constexpr std::size_t kBytesOfRank = std::size_t{64} << 20;  // used up only as far as written to

/// What a rank gives to one operation, and how far it is. Zeroes at first.
struct RankBoard {
  std::atomic<std::uint64_t> joined;
  std::atomic<std::uint64_t> posted;  // number of the operation that the bytes are for
  std::atomic<std::uint64_t> read;    // of the last one of which it has read what the others gave
  std::uint64_t bytes;
};

/// Memory without a name on any disk; gone with the processes.
class Board {
 public:
  /// The path by which other processes of this user open it, as long as this one lives.
  static std::shared_ptr<Board> create(std::string& path);
  /// Null: there is no such board (any more).
  static std::shared_ptr<Board> open(const std::string& path);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  RankBoard& rank(int rank) { return ranks_[rank]; }
  std::byte* bytes(int rank);

 private:
  explicit Board(int fd);

  int fd_;
  std::byte* memory_ = nullptr;
  RankBoard* ranks_ = nullptr;
};

}  // namespace fake_nccl
