"""The wall clock of all hosts is set back a year while a job runs: leases, restarts and the report go on as if it were not."""

import datetime
import json
import os
import re
import time
import unittest

import harness
from harness import BIN, BUILD, Hosts
from rounds import CONF, LEASE, RoundsTest, signs_of_life

harness.enter_namespaces()

CLOCK = BUILD / "tests" / "libshifted_clock.so"
HOUR = 3600
DAY = 24 * HOUR
BACK = 365 * DAY + 5 * HOUR  # the hours show in a time of day
LONGEST = HOUR  # of the whole job


def wall_time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class ClockSetBack(RoundsTest):
    processes = 1

    def environment(self, hosts):
        return {"LD_PRELOAD": str(CLOCK), "SHIFTED_CLOCK": str(-BACK), "SHIFTED_CLOCK_FROM": str(hosts.folder / "set-back"),
                # A runtime of a sanitizer insists on being the first library.
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def behind(self, node, number):
        """How far, in seconds, the clock was behind by which that ddprun stamped its worker's first line of the round."""
        node.wait_for(rf"round {number} begins")  # the workers may be seen before their ddprun has said it
        hours, minutes, seconds = map(int, re.search(rf"at (\d+):(\d+):(\d+)\S*: round {number} begins", node.out).groups())
        now = time.localtime()
        apart = (now.tm_hour - hours) * HOUR + (now.tm_min - minutes) * 60 + now.tm_sec - seconds
        return apart % DAY

    def pid_of(self, hosts, number, rank):
        for _, found_round, found_rank, _, pid, _ in reversed(signs_of_life(hosts)):
            if (int(found_round), int(found_rank)) == (number, rank):
                return int(pid)
        raise AssertionError(f"no rank {rank} in round {number}")

    def check(self, hosts, nodes, set_back, stop=lambda: None):
        number, _ = self.wait_for_round(hosts, nodes, 3)
        for node in nodes:
            node.wait_for(rf"round {number} begins")  # with the time before
        set_back()
        time.sleep(LEASE + 2.5)  # a node is given up 2 s after its lease
        self.assertEqual({sign[1] for sign in self.alive(hosts)}, {number}, "\n".join(map(str, nodes)))
        harness.kill(self.pid_of(hosts, number, 2))
        newer, _ = self.wait_for_round(hosts, nodes, 3, number)
        for node in nodes:
            self.assertLess(self.behind(node, number), HOUR, node)
            self.assertLess(abs(self.behind(node, newer) - BACK % DAY), HOUR, node)  # else this tests nothing
        hosts[2].lose_power()
        self.wait_for_round(hosts, nodes, 2, newer)
        (hosts.folder / "gate").touch()
        for node in nodes[:2]:
            node.wait()
        stop()
        self.end(hosts, nodes[:2])
        self.check_report(hosts, nodes)

    def check_report(self, hosts, nodes):
        written = [file for file in hosts.folder.glob("report.*") if file.stat().st_size > 0]
        self.assertEqual(len(written), 1, "\n".join(map(str, nodes)))
        report = json.loads(written[0].read_text(encoding="utf-8"))
        everything = json.dumps(report, indent=1)
        self.assertEqual((report["outcome"], report["restart_count"], len(report["rounds"])), ("succeeded", 1, 3), everything)
        begin, end = wall_time(report["started"]), wall_time(report["ended"])
        self.assertLess(abs(time.time() - begin.timestamp()), LONGEST, everything)
        self.assertLess((end - begin).total_seconds(), LONGEST, everything)
        for one in report["rounds"]:
            self.assertTrue(begin <= wall_time(one["started"]) <= end, everything)
            self.assertTrue(0 < one["lasted_seconds"] < LONGEST, everything)
        lasted = sum(one["lasted_seconds"] for one in report["rounds"])
        self.assertGreater(lasted, LEASE + 2.5, everything)

    def options(self, hosts, *more):
        return ["--max-restarts=3", "--log-line-prefix-template=at ${time}: ", "--output=pipe",
                f"--report={hosts.folder}/report.${{node_rank}}", *more]

    def test_a_year_back_changes_nothing_for_a_job_that_has_its_own_rendezvous(self):
        with Hosts(3) as hosts:
            nodes = self.start(hosts, options=self.options(hosts), **self.environment(hosts))
            self.check(hosts, nodes, (hosts.folder / "set-back").touch)

    def test_a_year_back_changes_nothing_for_a_job_whose_rdzvd_is_killed_then(self):
        with Hosts(3) as hosts:
            def start_rdzvd():
                rdzvd = hosts.run(hosts[0], [BIN / "rdzvd", f"--listen={hosts[0].addr}:29400", "--allow-uid=any",
                                             f"--state-dir={hosts.folder / 'state'}"], **self.environment(hosts))
                rdzvd.wait_for(":29400\n")
                return rdzvd

            rdzvd = start_rdzvd()
            nodes = self.start(hosts, options=self.options(hosts, f"{CONF},is_host=0"), **self.environment(hosts))

            def set_back():
                nonlocal rdzvd
                (hosts.folder / "set-back").touch()
                harness.kill(rdzvd.process.pid)
                rdzvd.wait()
                rdzvd = start_rdzvd()

            def stop():
                rdzvd.process.terminate()
                self.assertEqual(rdzvd.wait(), 0, rdzvd)

            self.check(hosts, nodes, set_back, stop)


if __name__ == "__main__":
    unittest.main()
