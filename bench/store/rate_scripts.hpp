// One request, over and over: what the rates are measured with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/store/script.hpp"
#include "bench/store/server.hpp"

namespace ddprun::bench {

enum class Op { set, get, add, compare_set, check, wait };
std::string_view name_of(Op op);
/// Throws std::runtime_error for a word that names none.
Op op_of(std::string_view name);
/// Whether a server of this kind has a request like it.
bool has(Speech speech, Op op);

/// Keys that the rates spread over, as long as gloo's (26 bytes), and the bytes of a value: those
/// of an ncclUniqueId.
inline constexpr std::uint32_t kRateKeys = 1000;
inline constexpr std::size_t kValueBytes = 128;

/// Connects and says hello: VALIDATE and PING in one segment as PyTorch does; PING to Redis.
class HelloScript : public Script {
 public:
  explicit HelloScript(Speech speech);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  Message hello_;
};

/// Client 0 gives every key its value, so that all replies have one length.
class FillScript : public Script {
 public:
  explicit FillScript(Speech speech);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  std::vector<Message> messages_;
};

/// Each client repeats one request on its own key (the key of its number modulo kRateKeys).
/// SET, which has no reply, has a PING behind it in the same segment. `batch` requests travel in
/// one segment.
class RateScript : public Script {
 public:
  RateScript(Speech speech, Op op, std::uint32_t batch = 1);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  std::vector<Message> messages_;  ///< by key
};

}  // namespace ddprun::bench
