#include "proto/c10d_write.hpp"

namespace ddprun::proto::c10d {

void RequestWriter::key(std::string_view name) {
  append_u64(out_, prefix_.size() + name.size());
  out_.append(prefix_);
  out_.append(name);
}

void RequestWriter::keys(std::span<const std::string> names) {
  append_u64(out_, names.size());
  for (const std::string& name : names) key(name);
}

void RequestWriter::validate() {
  code(Code::validate);
  append_u32(out_, kMagic);
}

void RequestWriter::ping(std::uint32_t nonce) {
  code(Code::ping);
  append_u32(out_, nonce);
}

void RequestWriter::set(std::string_view name, std::string_view value) {
  code(Code::set);
  key(name);
  append_bytes(out_, value);
}

void RequestWriter::compare_set(std::string_view name, std::string_view expected,
                                std::string_view desired) {
  code(Code::compare_set);
  key(name);
  append_bytes(out_, expected);
  append_bytes(out_, desired);
}

void RequestWriter::get(std::string_view name) {
  code(Code::get);
  key(name);
}

void RequestWriter::add(std::string_view name, std::int64_t delta) {
  code(Code::add);
  key(name);
  append_u64(out_, static_cast<std::uint64_t>(delta));
}

void RequestWriter::check(std::span<const std::string> names) {
  code(Code::check);
  keys(names);
}

void RequestWriter::wait(std::span<const std::string> names) {
  code(Code::wait);
  keys(names);
}

void RequestWriter::key_count() { code(Code::key_count); }

void RequestWriter::delete_key(std::string_view name) {
  code(Code::delete_key);
  key(name);
}

void RequestWriter::append(std::string_view name, std::string_view bytes) {
  code(Code::append);
  key(name);
  append_bytes(out_, bytes);
}

void RequestWriter::multi_get(std::span<const std::string> names) {
  code(Code::multi_get);
  keys(names);
}

void RequestWriter::multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
  code(Code::multi_set);
  append_u64(out_, pairs.size());
  for (const auto& [name, value] : pairs) {
    key(name);
    append_bytes(out_, value);
  }
}

void RequestWriter::cancel_wait() { code(Code::cancel_wait); }

void RequestWriter::queue_push(std::string_view name, std::string_view value) {
  code(Code::queue_push);
  key(name);
  append_bytes(out_, value);
}

void RequestWriter::queue_pop(std::string_view name) {
  code(Code::queue_pop);
  key(name);
}

void RequestWriter::queue_length(std::string_view name) {
  code(Code::queue_length);
  key(name);
}

void RequestWriter::list_keys() { code(Code::list_keys); }

void RequestWriter::barrier(std::string_view name, std::int64_t world_size) {
  code(Code::barrier);
  key(name);
  append_u64(out_, static_cast<std::uint64_t>(world_size));
}

}  // namespace ddprun::proto::c10d
