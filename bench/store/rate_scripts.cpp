#include "bench/store/rate_scripts.hpp"

#include <array>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "tests/support/c10d_requests.hpp"

namespace ddprun::bench {
namespace {

using test::TorchRequestWriter;

constexpr std::array<std::pair<Op, std::string_view>, 6> kOps = {{{Op::set, "set"},
                                                                  {Op::get, "get"},
                                                                  {Op::add, "add"},
                                                                  {Op::compare_set, "compare_set"},
                                                                  {Op::check, "check"},
                                                                  {Op::wait, "wait"}}};
constexpr std::uint32_t kNonce = 0xBE7C4;
constexpr std::uint64_t kNonceBytes = 4;
constexpr std::string_view kCounterStart = "1000000000";  // stays ten digits long in any run

std::string blob_key(std::uint32_t number) {
  return fmt::format("/default_pg/0//cpu//0/{:04}", number);
}
std::string counter_key(std::uint32_t number) {
  return fmt::format("/default_pg/0//add//0/{:04}", number);
}
std::string blob() { return std::string(kValueBytes, 'v'); }

/// A Redis request: an array of strings.
template <class... Words>
std::string redis(const Words&... words) {
  std::string out = fmt::format("*{}\r\n", sizeof...(words));
  const auto append = [&](std::string_view word) {
    fmt::format_to(std::back_inserter(out), "${}\r\n{}\r\n", word.size(), word);
  };
  (append(words), ...);
  return out;
}

Message redis_request(Op op, std::uint32_t key) {
  const std::uint64_t blob_reply = fmt::formatted_size("${}\r\n", kValueBytes) + kValueBytes + 2;
  switch (op) {
    case Op::set:
      return {redis("SET", blob_key(key), blob()), 5};  // +OK
    case Op::get:
      return {redis("GET", blob_key(key)), blob_reply};
    case Op::add:
      return {redis("INCRBY", counter_key(key), "1"), kCounterStart.size() + 3};
    case Op::compare_set:  // the nearest: set if there, and return what was
      return {redis("SET", blob_key(key), blob(), "XX", "GET"), blob_reply};
    case Op::check:
      return {redis("EXISTS", blob_key(key)), 4};  // :1
    case Op::wait:
      break;
  }
  throw std::runtime_error("Redis has no such request");
}

Message c10d_request(Op op, std::uint32_t key) {
  Message message;
  TorchRequestWriter writer(message.bytes);
  const std::string name = blob_key(key);
  switch (op) {
    case Op::set:
      writer.set(name, blob());
      writer.ping(kNonce);
      message.reply_bytes = kNonceBytes;
      break;
    case Op::get:
      writer.get(name);
      message.reply_bytes = 8 + kValueBytes;
      break;
    case Op::add:
      writer.add(counter_key(key), 1);
      message.reply_bytes = 8;
      break;
    case Op::compare_set:
      writer.compare_set(name, blob(), blob());
      message.reply_bytes = 8 + kValueBytes;
      break;
    case Op::check:
      writer.check(std::span(&name, 1));
      message.reply_bytes = 1;
      break;
    case Op::wait:
      writer.wait(std::span(&name, 1));
      message.reply_bytes = 1;
      break;
  }
  return message;
}

Message request(Speech speech, Op op, std::uint32_t key) {
  return speech == Speech::redis ? redis_request(op, key) : c10d_request(op, key);
}

}  // namespace

std::string_view name_of(Op op) {
  for (const auto& [value, name] : kOps) {
    if (value == op) return name;
  }
  return "?";
}

Op op_of(std::string_view name) {
  for (const auto& [value, word] : kOps) {
    if (word == name) return value;
  }
  throw std::runtime_error(fmt::format("no request is called {}", name));
}

bool has(Speech speech, Op op) { return speech != Speech::redis || op != Op::wait; }

HelloScript::HelloScript(Speech speech) {
  if (speech == Speech::redis) {
    hello_ = {redis("PING"), 7};  // +PONG
    return;
  }
  TorchRequestWriter writer(hello_.bytes);
  writer.validate();
  writer.ping(kNonce);
  hello_.reply_bytes = kNonceBytes;
}

bool HelloScript::next(std::uint32_t, std::uint64_t step, Message& message) const {
  if (step > 0) return false;
  message = hello_;
  return true;
}

FillScript::FillScript(Speech speech) {
  for (std::uint32_t key = 0; key < kRateKeys; ++key) {
    messages_.push_back(request(speech, Op::set, key));
    Message counter;
    if (speech == Speech::redis) {
      counter = {redis("SET", counter_key(key), kCounterStart), 5};
    } else {
      TorchRequestWriter writer(counter.bytes);
      writer.set(counter_key(key), kCounterStart);
      writer.ping(kNonce);
      counter.reply_bytes = kNonceBytes;
    }
    messages_.push_back(std::move(counter));
  }
}

bool FillScript::next(std::uint32_t client, std::uint64_t step, Message& message) const {
  if (client != 0 || step >= messages_.size()) return false;
  message = messages_[step];
  return true;
}

RateScript::RateScript(Speech speech, Op op, std::uint32_t batch) {
  for (std::uint32_t key = 0; key < kRateKeys; ++key) {
    const Message one = request(speech, op, key);
    Message all;
    for (std::uint32_t i = 0; i < batch; ++i) {
      all.bytes += one.bytes;
      all.reply_bytes += one.reply_bytes;
    }
    messages_.push_back(std::move(all));
  }
}

bool RateScript::next(std::uint32_t client, std::uint64_t, Message& message) const {
  const Message& own = messages_[client % kRateKeys];
  message.bytes.assign(own.bytes);
  message.reply_bytes = own.reply_bytes;
  return true;
}

}  // namespace ddprun::bench
