// What workers have printed last, for those who look into a running job: the end of each stream,
// and, while somebody follows, all of it. Several threads share it; each function holds the lock
// while it lasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/streams/output_source.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// A part of what one worker has written to one stream. No UTF-8 character is cut in two.
struct OutputPiece {
  WorkerKey worker;
  int rank = 0;  ///< in the round in which it was started
  bool standard_error = false;
  bool both = false;  ///< stdout and stderr are one
  std::string text;
};

class RecentOutput {
 public:
  static constexpr std::size_t kEndBytes = 4096;  ///< kept of each stream
  static constexpr std::size_t kPieceBytesMax = 32 * 1024;
  static constexpr std::size_t kPiecesBytesMax = 256 * 1024;  ///< kept for those who follow

  /// Somebody who follows. What is not taken in time is lost to it.
  class Follower {
   public:
    explicit Follower(std::shared_ptr<RecentOutput> output);
    ~Follower();
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

    /// The end of each stream that has one, when this began, from the beginning of a line on; by
    /// round, local rank and stream. What comes behind them is to follow.
    std::vector<OutputPiece> take_ends() { return std::move(ends_); }
    /// None: there is nothing now.
    std::optional<OutputPiece> next();
    /// Bytes that it has lost since the last call.
    std::uint64_t take_lost() { return std::exchange(lost_, 0); }

   private:
    const std::shared_ptr<RecentOutput> output_;
    std::vector<OutputPiece> ends_;
    std::uint64_t next_piece_ = 0;
    std::uint64_t bytes_before_ = 0;  // of all pieces before that one
    std::uint64_t lost_ = 0;
  };

  /// `has_more` is called by the thread that reads workers: those who follow find something. Not
  /// again before `looked`.
  explicit RecentOutput(std::function<void()> has_more = {}) : has_more_(std::move(has_more)) {}

  // The thread that reads workers:
  void add(const OutputSource& source, std::string_view bytes);
  /// Nothing more comes from it.
  void note_end(const OutputSource& source);
  /// Streams of older rounds that have ended.
  void forget_before(proto::RoundNumber round);

  // Any thread:

  /// The last line that is not empty, of the stream that was written last. Empty: there is none.
  [[nodiscard]] std::string last_line(const WorkerKey& worker) const;
  void looked();

 private:
  struct Stream {
    OutputPiece end;
    std::string held;              // the beginning of a character, for the next piece
    std::uint64_t written_at = 0;  // counts writes
    bool is_cut = false;           // there was more before
    bool has_ended = false;
  };
  [[nodiscard]] std::vector<OutputPiece> ends() const;
  void keep(Stream& stream, std::string_view bytes);
  void pass_on(Stream& stream, std::string_view bytes);
  void add_piece(const OutputPiece& from, std::string_view text);

  const std::function<void()> has_more_;
  mutable std::mutex mutex_;
  std::map<std::pair<WorkerKey, bool>, Stream> streams_;  // true: stderr
  std::uint64_t writes_ = 0;
  int followers_ = 0;
  bool is_told_ = false;
  std::deque<OutputPiece> pieces_;
  std::uint64_t next_piece_ = 0;    // the number of the next one
  std::uint64_t bytes_passed_ = 0;  // in all pieces so far
  std::size_t bytes_kept_ = 0;      // in pieces_
};

}  // namespace ddprun::agent
