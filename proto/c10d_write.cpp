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

void RequestWriter::cancel_wait() { code(Code::cancel_wait); }

}  // namespace ddprun::proto::c10d
