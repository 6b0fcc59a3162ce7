"""rdzvd is lost with its host and started on another one, and its name leads there: agents look it up again.

With its state the job goes on as if nothing had happened; without, the nodes join afresh, and their rounds count on.
"""

import shutil
import unittest

import harness
from harness import BIN, Hosts
from rounds import RoundsTest

harness.enter_namespaces()

ENDPOINT = "rendezvous:29400"
# A lease of 10 s, within which a busy machine starts rdzvd again.
CONF = "--rdzv-conf=is_host=0,keep_alive_interval=1,keep_alive_max_attempt=10,last_call_timeout=5"


class Moves(RoundsTest):
    nodes = "2"
    processes = 1

    def start_rdzvd(self, hosts, host, state):
        rdzvd = hosts.run(host, [BIN / "rdzvd", f"--listen={host.addr}:29400", "--allow-uid=any", f"--state-dir={state}"])
        rdzvd.wait_for(":29400\n")
        return rdzvd

    def carry(self, state, copy):
        """To a host with another kernel, which these hosts only play."""
        shutil.copytree(state, copy)
        words = (copy / "clock").read_text(encoding="utf-8").split(" ")
        self.assertEqual(words[:3], ["ddprun", "clock", "1"])
        words[3] = "00000000-0000-4000-8000-000000000000"  # its boot id
        (copy / "clock").write_text(" ".join(words), encoding="utf-8")

    def check_move(self, lose, keeps_state):
        """node3 and node4 do the work; the rendezvous goes from node1 to node2."""
        with Hosts(4) as hosts:
            old, new, *workers = hosts
            for host in workers:
                host.add_name("rendezvous", old.addr)
            state = hosts.folder / "state"
            self.start_rdzvd(hosts, old, state)
            nodes = self.start(hosts, workers, options=[CONF], endpoint=ENDPOINT)
            number, _ = self.wait_for_round(hosts, nodes, 2)
            lose(old)
            copy = hosts.folder / "copy"
            if keeps_state:
                self.carry(state, copy)
            rdzvd = self.start_rdzvd(hosts, new, copy)
            for host in workers:
                host.move_name("rendezvous", new.addr)
            everything = lambda: "\n".join(map(str, [rdzvd, *nodes]))
            harness.until(lambda: self.attached(hosts, workers[0], ENDPOINT) == 2, 40, everything)
            if keeps_state:
                self.assertEqual({sign[1] for sign in self.alive(hosts)}, {number}, everything())
            else:
                self.wait_for_round(hosts, nodes, 2, number)
            (hosts.folder / "gate").touch()
            for node in nodes:
                node.wait()
            rdzvd.process.terminate()
            self.assertEqual(rdzvd.wait(), 0, rdzvd)
            self.end(hosts, nodes)

    def test_agents_go_on_with_an_rdzvd_that_has_its_state_on_another_host(self):
        self.check_move(lambda host: host.kill(), keeps_state=True)

    def test_agents_go_on_where_the_old_host_answers_no_more(self):
        self.check_move(lambda host: host.lose_power(), keeps_state=True)

    def test_agents_join_afresh_where_rdzvd_comes_without_its_state_on_another_host(self):
        self.check_move(lambda host: host.kill(), keeps_state=False)

    def test_so_they_do_where_the_old_host_answers_no_more(self):
        self.check_move(lambda host: host.lose_power(), keeps_state=False)


if __name__ == "__main__":
    unittest.main()
