// The c10d TCPStore wire protocol, writing side: requests for clients, fields of replies for
// servers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/c10d.hpp"

namespace ddprun::proto::c10d {

/// Appends a number in wire order.
inline void append_u64(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void append_u32(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
/// Appends a length and the bytes.
inline void append_bytes(std::string& out, std::string_view bytes) {
  append_u64(out, bytes.size());
  out.append(bytes);
}

/// Appends whole requests of StoreClient, in today's dialect, to a buffer that the caller owns.
/// Checks no limits.
class RequestWriter {
 public:
  /// Every key is sent with `key_prefix` in front; PyTorch's TCPStore uses "/".
  explicit RequestWriter(std::string& out, std::string_view key_prefix = "")
      : out_(out), prefix_(key_prefix) {}

  void validate();
  void ping(std::uint32_t nonce);
  void set(std::string_view key, std::string_view value);
  void get(std::string_view key);
  void add(std::string_view key, std::int64_t delta);
  void check(std::span<const std::string> keys);
  void wait(std::span<const std::string> keys);
  void key_count();
  void cancel_wait();

 protected:  // for the requests that only tests send
  [[nodiscard]] std::string& out() { return out_; }
  void code(Code value) { out_.push_back(static_cast<char>(value)); }
  void key(std::string_view name);
  void keys(std::span<const std::string> names);

 private:
  std::string& out_;
  std::string_view prefix_;
};

}  // namespace ddprun::proto::c10d
