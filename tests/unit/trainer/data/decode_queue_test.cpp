// Samples decoded ahead: their order, how many are held, and what a failure does.
#include "trainer/data/sample_reader.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kBytes = 16;

std::vector<std::uint32_t> upwards(std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

/// Decodes a sample to bytes that all are its index.
void fill(std::size_t index, std::span<std::uint8_t> bytes) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(index));
}

bool is_sample(std::span<const std::uint8_t> bytes, std::uint32_t index) {
  const auto value = static_cast<std::uint8_t>(index);
  return bytes.size() == kBytes &&
         std::all_of(bytes.begin(), bytes.end(), [&](std::uint8_t byte) { return byte == value; });
}

TEST_CASE("samples come in the order that is asked for, never more ahead than there is room for") {
  for (const int threads : {1, 3, 8}) {
    for (const std::size_t room : {1U, 2U, 5U, 64U}) {
      CAPTURE(threads, room);
      // Counted apart from the queue: decoded, but not yet taken.
      std::atomic<int> ahead{0};
      std::atomic<int> most{0};
      DecodeQueue queue({.sample_bytes = kBytes, .samples = room, .threads = threads},
                        [&](std::size_t index, std::span<std::uint8_t> bytes) {
                          const int now = ++ahead;
                          int before = most;
                          while (now > before && !most.compare_exchange_weak(before, now)) {
                          }
                          fill(index, bytes);
                        });
      CHECK(queue.bytes() == room * kBytes);
      for (const std::uint32_t step : {7U, 3U}) {
        std::vector<std::uint32_t> order(200);
        for (std::uint32_t i = 0; i < 200; ++i) order[i] = i * step % 200;
        queue.expect(order);
        for (std::size_t place = 0; place < 200; ++place) {
          queue.take(place, [&](std::span<const std::uint8_t> bytes) {
            REQUIRE(is_sample(bytes, order[place]));
            --ahead;
          });
        }
      }
      CHECK(static_cast<std::size_t>(most) <= room);
      CHECK(queue.most_held() <= room);
    }
  }
}

TEST_CASE("several readers take their places side by side") {
  DecodeQueue queue({.sample_bytes = kBytes, .samples = 3, .threads = 2}, fill);
  queue.expect(upwards(400));
  std::atomic<std::size_t> next{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      // Shards of ten samples, given out in turn.
      for (std::size_t shard = next++; shard < 40; shard = next++) {
        for (std::size_t place = shard * 10; place < shard * 10 + 10; ++place) {
          queue.take(place, [&](std::span<const std::uint8_t> bytes) {
            if (!is_sample(bytes, static_cast<std::uint32_t>(place))) ++wrong;
          });
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("what was expected before is forgotten, also while it is decoded") {
  DecodeQueue queue({.sample_bytes = kBytes, .samples = 4, .threads = 3}, fill);
  for (std::uint32_t turn = 0; turn < 200; ++turn) {
    queue.expect({turn, turn + 1, turn + 2, turn + 3, turn + 4, turn + 5});
    for (std::size_t place = 0; place < turn % 4; ++place) {
      queue.take(place, [&](std::span<const std::uint8_t> bytes) {
        REQUIRE(is_sample(bytes, turn + static_cast<std::uint32_t>(place)));
      });
    }
  }
  queue.expect({});
}

TEST_CASE("a sample that cannot be decoded ends every wait with its error") {
  DecodeQueue queue({.sample_bytes = kBytes, .samples = 4, .threads = 2},
                    [](std::size_t index, std::span<std::uint8_t> bytes) {
                      if (index == 20) throw DataError("sample 20 is gone");
                      fill(index, bytes);
                    });
  queue.expect(upwards(100));
  std::atomic<int> ended{0};
  std::vector<std::thread> readers;
  std::atomic<std::size_t> next{0};
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      try {
        for (std::size_t shard = next++; shard < 10; shard = next++)
          for (std::size_t place = shard * 10; place < shard * 10 + 10; ++place)
            queue.take(place, [](std::span<const std::uint8_t>) {});
      } catch (const DataError& error) {
        if (std::string(error.what()) == "sample 20 is gone") ++ended;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(ended == 3);
}

TEST_CASE("all samples of a list come in their order, until one fails") {
  const int threads = GENERATE(0, 1, 3);
  std::uint32_t count = 0;
  decode_all(100, kBytes, threads, fill,
             [&](std::size_t index, std::span<const std::uint8_t> bytes) {
               REQUIRE(index == count);
               REQUIRE(is_sample(bytes, count));
               ++count;
             });
  CHECK(count == 100);
  const auto fails = [](std::size_t index, std::span<std::uint8_t> bytes) {
    if (index == 40) throw DataError("forty");
    fill(index, bytes);
  };
  count = 0;
  CHECK_THROWS_WITH(
      decode_all(100, kBytes, threads, fails,
                 [&](std::size_t /*index*/, std::span<const std::uint8_t> /*bytes*/) { ++count; }),
      "forty");
  CHECK(count == 40);
  decode_all(0, kBytes, threads, fails, [](std::size_t, std::span<const std::uint8_t>) {});
}

}  // namespace
}  // namespace ddprun::trainer
