// Requests to a store that PyTorch's clients send, and ours does not: for tests and benchmarks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "proto/c10d_write.hpp"

namespace ddprun::test {

class TorchRequestWriter : public proto::c10d::RequestWriter {
 public:
  using proto::c10d::RequestWriter::RequestWriter;

  void compare_set(std::string_view name, std::string_view expected, std::string_view desired) {
    code(proto::c10d::Code::compare_set);
    key(name);
    proto::c10d::append_bytes(out(), expected);
    proto::c10d::append_bytes(out(), desired);
  }
  void delete_key(std::string_view name) {
    code(proto::c10d::Code::delete_key);
    key(name);
  }
  void append(std::string_view name, std::string_view bytes) {
    code(proto::c10d::Code::append);
    key(name);
    proto::c10d::append_bytes(out(), bytes);
  }
  void multi_get(std::span<const std::string> names) {
    code(proto::c10d::Code::multi_get);
    keys(names);
  }
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
    code(proto::c10d::Code::multi_set);
    proto::c10d::append_u64(out(), pairs.size());
    for (const auto& [name, value] : pairs) {
      key(name);
      proto::c10d::append_bytes(out(), value);
    }
  }
  void queue_push(std::string_view name, std::string_view value) {
    code(proto::c10d::Code::queue_push);
    key(name);
    proto::c10d::append_bytes(out(), value);
  }
  void queue_pop(std::string_view name) {
    code(proto::c10d::Code::queue_pop);
    key(name);
  }
  void queue_length(std::string_view name) {
    code(proto::c10d::Code::queue_length);
    key(name);
  }
  void list_keys() { code(proto::c10d::Code::list_keys); }
  void barrier(std::string_view name, std::int64_t world_size) {
    code(proto::c10d::Code::barrier);
    key(name);
    proto::c10d::append_u64(out(), static_cast<std::uint64_t>(world_size));
  }
};

}  // namespace ddprun::test
