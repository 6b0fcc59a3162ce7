// Replies on their way: order, shared values, and any pattern of partial sends.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

#include "rendezvous/store/reply_buffer.hpp"
#include "tests/unit/rendezvous/store/asking.hpp"

using namespace ddprun::test;
using ddprun::rdzv::kSharedValueBytesMin;
using ddprun::rdzv::ReplyBuffer;
using ddprun::rdzv::SharedValue;

TEST_CASE("small values are copied, large ones are shared") {
  ReplyBuffer replies;
  const auto small = std::make_shared<std::string>(kSharedValueBytesMin - 1, 's');
  const auto large = std::make_shared<std::string>(kSharedValueBytesMin, 'l');
  replies.append_value(small);
  replies.append_value(large);
  CHECK(small.use_count() == 1);
  CHECK(large.use_count() == 2);
  CHECK(drain(replies) == vec(*small) + vec(*large));
  CHECK(large.use_count() == 1);
}

TEST_CASE("replies leave in order whatever a socket takes at a time") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    ReplyBuffer replies;
    std::string expected;
    std::string taken;
    for (int step = 0; step < 200; ++step) {
      switch (below(4)) {
        case 0:
          replies.append_u8(7);
          expected.push_back(7);
          break;
        case 1: {
          const std::string bytes(below(3000), static_cast<char>('a' + below(26)));
          replies.append_bytes(bytes);
          expected += vec(bytes);
          break;
        }
        case 2: {
          const auto value =
              std::make_shared<std::string>(below(20000), static_cast<char>('A' + below(26)));
          replies.append_value(value);
          expected += vec(*value);
          break;
        }
        default: {
          std::array<iovec, 3> pieces{};
          const std::size_t filled = replies.gather({pieces.data(), 1 + below(3)});
          std::size_t room = below(12000);
          std::size_t sent = 0;
          for (std::size_t i = 0; i < filled && room > 0; ++i) {
            const std::size_t length = std::min(room, pieces[i].iov_len);
            taken.append(static_cast<const char*>(pieces[i].iov_base), length);
            sent += length;
            room -= length;
          }
          replies.consume(sent);
        }
      }
      REQUIRE(replies.size() == expected.size() - taken.size());
      REQUIRE(replies.empty() == (replies.size() == 0));
    }
    taken += drain(replies);
    CHECK(taken == expected);
  }
}

TEST_CASE("one value named many times in a reply is not copied as often") {
  const auto value = std::make_shared<std::string>(4000, 'v');
  ReplyBuffer replies;
  for (int i = 0; i < 1000; ++i) replies.append_value(value);
  CHECK(replies.size() == 1000 * 4008);
  CHECK(value.use_count() > 900);  // shared by all but the first, which were small
  const std::string bytes = drain(replies);
  REQUIRE(bytes.size() == 1000 * 4008);
  bool whole = true;
  for (std::size_t i = 0; i < 1000; ++i) {
    whole = whole && bytes.compare(i * 4008, 8, number(4000)) == 0 &&
            bytes.compare(i * 4008 + 8, 4000, *value) == 0;
  }
  CHECK(whole);
  CHECK(value.use_count() == 1);
}
