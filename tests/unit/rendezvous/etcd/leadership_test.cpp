// Which rdzvd leads: leases, lost answers, processes that were stopped, all over an etcd in memory.
#include "rendezvous/etcd/leadership.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/etcd/candidate.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using namespace ddprun::rdzv;
using Catch::Matchers::Contains;
using Role = Leadership::Role;
using Fate = ModelEtcd::Fate;

TEST_CASE("the first rdzvd leads, the second is a standby that knows which one to name") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:29400");
  Candidate b(etcd, "b:29400");
  a.lead();
  b.step();
  CHECK(b->role() == Role::standby);
  CHECK(b->leader() == "a:29400");
  for (int i = 0; i < 100; ++i) {
    etcd->now += 300ms;
    a.step();
    b.step();
    CHECK(a.may_answer());
    CHECK(b->role() == Role::standby);
  }
}

TEST_CASE("nobody answers before the past is read and the clock is written") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.elect();
  a.run(20s);  // reading takes long, and the lease is kept
  CHECK(a->role() == Role::elected);
  CHECK_FALSE(a.may_answer());
  CHECK(etcd->value("p/clock").empty());
  a->lead(3h, 0);
  a.step();
  CHECK(a.may_answer());
  const auto clock = etcd_clock_in(etcd->value("p/clock"));
  REQUIRE(clock.has_value());
  CHECK(*clock >= *a->answers_until() + 3h);  // no clock that was ever shown is beyond it
}

TEST_CASE("another leads once the lease is over, and the old one has stopped answering before") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  Candidate b(etcd, "b:1");
  a.lead();
  const auto killed = etcd->now;
  while (b->role() != Role::elected) {
    etcd->now += 50ms;
    b.step();
    if (b->role() == Role::elected) CHECK_FALSE(a.may_answer());
    REQUIRE(etcd->now < killed + 7s);
  }
  CHECK(etcd->now > killed + 4s);
}

TEST_CASE("a leader that was stopped and wakes answers nothing and knows that it has lost") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  Candidate b(etcd, "b:1");
  a.lead();
  etcd->now += 6s;
  b.run(1s);
  CHECK(b->role() == Role::elected);
  CHECK_FALSE(a.may_answer());
  a.step();
  CHECK(a->role() == Role::lost);
  CHECK_THAT(a->reason(), Contains("lease in etcd is over"));
  a->stand_again(etcd->now);
  a.run(2s);
  CHECK(a->role() == Role::standby);
  CHECK(a->leader() == "b:1");
}

TEST_CASE("a leader cut from etcd goes on until its lease is over and no longer") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  const auto until = *a->answers_until();
  etcd->fate = [] { return Fate::lost; };
  while (a->role() == Role::leading) {
    etcd->now += 50ms;
    a.step();
    REQUIRE(etcd->now < until + 1s);
  }
  CHECK(etcd->now >= until);
  CHECK_THAT(a->reason(), Contains("no answer"));
}

TEST_CASE("a claim of which the answer was lost is recognized as one's own") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  int requests = 0;
  etcd->fate = [&] { return ++requests == 3 ? Fate::answer_lost : Fate::answered; };
  a.run(1s);
  CHECK(a->role() == Role::elected);
  CHECK(etcd->value("p/leader") == "a:1");
}

TEST_CASE("a claim without an answer is given up when its lease is over") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  int requests = 0;
  etcd->fate = [&] {
    return ++requests >= 3 && requests < 60 ? Fate::answer_lost : Fate::answered;
  };
  a.run(4s);
  CHECK(a->role() == Role::standby);
  a.run(8s);  // its own key goes with its old lease
  CHECK(a->role() == Role::elected);
}

TEST_CASE("a key that was deleted or taken ends the leadership at the next confirmation") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  etcd->remove("p/leader");
  if (GENERATE(true, false)) etcd->put("p/leader", "c:1");
  a.run(1500ms);
  CHECK(a->role() == Role::lost);
  CHECK_THAT(a->reason(), Contains("another one has taken its place") && Contains("deleted"));
}

TEST_CASE("a full etcd ends the leadership, and the reason names that") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  etcd->is_full = true;
  a.run(6s);
  CHECK(a->role() == Role::lost);
  CHECK_THAT(a->reason(), Contains("full"));
}

TEST_CASE("a leader that resigns leaves its clock and lets another lead at once") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  Candidate b(etcd, "b:1");
  a.lead(2h);
  b.step();
  const auto txn = a->resign(etcd->now);
  REQUIRE(txn.has_value());
  CHECK(etcd->txn(*txn).succeeded);
  CHECK(etcd_clock_in(etcd->value("p/clock")) == etcd->now + 2h);
  b.run(500ms);
  CHECK(b->role() == Role::elected);
  CHECK_FALSE(b->resign(etcd->now)->changes.size() > 1);  // it has not led: the clock stays
}

TEST_CASE("the last leader of a run that is over takes all of its keys with it, and no others") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  etcd->put("p/jobs/j/head", "x");
  etcd->put("p/candidates/1", "a:1");
  etcd->put("p2/leader", "b:1");
  const auto txn = a->resign(etcd->now, Leadership::Legacy::removed);
  CHECK(etcd->txn(*txn).succeeded);
  CHECK(etcd->keys() == std::vector<std::string>{"p2/leader"});
  // One that does not know what there is removes nothing but its own key.
  etcd->put("p/jobs/j/head", "x");
  Candidate b(etcd, "b:1");
  b.elect();
  CHECK(etcd->txn(*b->resign(etcd->now, Leadership::Legacy::removed)).succeeded);
  CHECK(etcd->keys() == std::vector<std::string>{"p/jobs/j/head", "p2/leader"});
}

TEST_CASE("a leader that has lost its key removes nothing when it ends") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  etcd->remove("p/leader");
  CHECK_FALSE(etcd->txn(*a->resign(etcd->now, Leadership::Legacy::removed)).succeeded);
  CHECK_FALSE(etcd->value("p/clock").empty());
}

TEST_CASE("a confirmation with a lost answer, and one that arrives again late, do no harm") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  const EtcdTxn old = etcd->sent.back();
  int requests = 0;
  etcd->fate = [&] { return ++requests % 3 == 2 ? Fate::answer_lost : Fate::answered; };
  std::string clock;
  for (int i = 0; i < 100; ++i) {
    etcd->now += 100ms;
    a.step();
    CHECK_FALSE(etcd->txn(old).succeeded);
    CHECK(a.may_answer());
    CHECK(etcd->value("p/clock") >= clock);
    clock = etcd->value("p/clock");
  }
  CHECK(a->role() == Role::leading);
}

TEST_CASE("the leader removes history that is older than ten minutes") {
  const auto etcd = std::make_shared<ModelEtcd>();
  Candidate a(etcd, "a:1");
  a.lead();
  const EtcdRevision first = etcd->revision();
  a.run(9min);
  CHECK(etcd->compacted == 0);
  a.run(2min);
  CHECK(etcd->compacted == first);
  a.run(10min);
  CHECK(etcd->compacted > first + 300);
  CHECK(etcd->compacted < etcd->revision());
  CHECK(a->role() == Role::leading);
}
