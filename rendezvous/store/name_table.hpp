// A hash table from names to what the store keeps under them. Its own, because a look-up is mostly
// the cache lines that it touches: here two, one of the table and one of the entry with the name's
// bytes in it, where a std::unordered_map of strings touches four.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::rdzv {

/// Maps byte strings to `Value`s, which are made in place and stay where they are until erased.
template <class Value>
class NameTable {
 public:
  /// A value and its name.
  class Entry : public Value {
   public:
    [[nodiscard]] std::string_view name() const {
      return {reinterpret_cast<const char*>(this + 1), bytes_};
    }

   private:
    friend NameTable;
    Entry(std::uint64_t hash, std::size_t bytes) : hash_(hash), bytes_(bytes) {}
    std::uint64_t hash_;
    std::size_t bytes_;  ///< of the name, which lies behind the entry
  };

  NameTable() = default;
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;
  ~NameTable() {
    for (Slot& slot : slots_) destroy(slot.entry);
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] Entry* find(std::string_view name) const {
    if (slots_.empty()) return nullptr;
    return slots_[position_of(name, hash_of(name))].entry;
  }

  Entry& find_or_add(std::string_view name) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    const std::uint64_t hash = hash_of(name);
    Slot& slot = slots_[position_of(name, hash)];
    if (slot.entry == nullptr) {
      slot = {hash, create(name, hash)};
      ++size_;
    }
    return *slot.entry;
  }

  void erase(Entry& entry) {
    std::size_t hole = entry.hash_ & mask();
    while (slots_[hole].entry != &entry) hole = (hole + 1) & mask();
    destroy(slots_[hole].entry);
    --size_;
    // Whatever was pushed away from its place moves up, so that look-ups may stop at a free slot.
    for (std::size_t next = (hole + 1) & mask(); slots_[next].entry != nullptr;
         next = (next + 1) & mask()) {
      const std::size_t home = slots_[next].hash & mask();
      if (((next - home) & mask()) < ((next - hole) & mask())) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = Slot{};
  }

  /// Calls `visit(const Entry&)` for each, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.entry != nullptr) visit(static_cast<const Entry&>(*slot.entry));
    }
  }

 private:
  static constexpr std::size_t kFirstSlots = 16;
  struct Slot {
    std::uint64_t hash = 0;
    Entry* entry = nullptr;  ///< none: free
  };

  static std::uint64_t hash_of(std::string_view name) {
    return std::hash<std::string_view>{}(name);
  }
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }

  /// Where `name` is, or the free slot where it would be.
  [[nodiscard]] std::size_t position_of(std::string_view name, std::uint64_t hash) const {
    std::size_t position = hash & mask();
    while (slots_[position].entry != nullptr &&
           (slots_[position].hash != hash || slots_[position].entry->name() != name)) {
      position = (position + 1) & mask();
    }
    return position;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? kFirstSlots : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.entry == nullptr) continue;
      std::size_t position = slot.hash & mask();
      while (slots_[position].entry != nullptr) position = (position + 1) & mask();
      slots_[position] = slot;
    }
  }

  static Entry* create(std::string_view name, std::uint64_t hash) {
    void* const memory = ::operator new(sizeof(Entry) + name.size());
    if (!name.empty())
      std::memcpy(static_cast<char*>(memory) + sizeof(Entry), name.data(), name.size());
    return new (memory) Entry(hash, name.size());
  }
  static void destroy(Entry* entry) {
    if (entry == nullptr) return;
    entry->~Entry();
    ::operator delete(entry);
  }

  std::vector<Slot> slots_;  ///< a power of two, at most three quarters in use
  std::size_t size_ = 0;
};

}  // namespace ddprun::rdzv
