"""The manifests of docs/containers/: what each pod's ddprun would do with the variables that it gets there."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "containers"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from dry_run import BIN, UNSHARE, DryRunTest, may_unshare  # noqa: E402
from namespaces import until  # noqa: E402

HAS_YAML = importlib.util.find_spec("yaml") is not None


def documents(name):
    import yaml

    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


@unittest.skipUnless(HAS_YAML, "this Python has no yaml (python3-yaml)")
class Manifests(DryRunTest):
    def check_pod(self, pod):
        """Of its template: the container."""
        container, = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        self.assertEqual(mounted, {volume["name"] for volume in pod["volumes"]})
        self.assertGreater(pod["terminationGracePeriodSeconds"], 45)  # the longest end: docs/containment.md
        return container

    def check_plans(self, container, pods, endpoint):
        """pods: command line, variables, and whether the rank is fixed; by rank."""
        for index, (words, variables, ranked) in enumerate(pods):
            self.assertFalse([word for word in words if "$" in word])
            plan = self.plan(words, **variables)
            self.assert_nodes(plan, len(pods), endpoint)
            if ranked:
                self.assertIn(f"this one has node rank {index}", plan["text"])
            self.assertRegex(plan["text"], rf"(?m)^workers +{container['resources']['limits']['nvidia.com/gpu']}$")
            ends = [int(re.search(rf"(?m)^{title} +(\d+) s$", plan["text"]).group(1)) for title in ("grace period", "kill timeout")]
            self.assertLessEqual(sum(ends) + 5, 45)

    def check_service(self, service, labels, subdomain):
        self.assertEqual(service["kind"], "Service")
        self.assertEqual(service["metadata"]["name"], subdomain)
        spec = service["spec"]
        self.assertEqual((spec["clusterIP"], spec["publishNotReadyAddresses"], spec["selector"]), ("None", True, labels))

    def test_the_pods_of_a_job_find_each_other_by_the_names_that_they_get(self):
        service, job = documents("kubernetes.yaml")
        name, spec = job["metadata"]["name"], job["spec"]
        pod = spec["template"]["spec"]
        self.check_service(service, {"job-name": name}, pod["subdomain"])
        self.assertEqual((job["kind"], spec["completionMode"], spec["completions"]), ("Job", "Indexed", spec["parallelism"]))
        container = self.check_pod(pod)
        words = [[word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in container["args"]] for index in range(spec["completions"])]
        self.check_plans(container, [(words[index], {"JOB_COMPLETION_INDEX": str(index)}, True) for index in range(len(words))],
                         f"{name}-0.{pod['subdomain']}:29400")

    def test_the_pods_of_a_jobset_need_no_endpoint(self):
        jobset, = documents("jobset.yaml")
        name = jobset["metadata"]["name"]
        replicated, = jobset["spec"]["replicatedJobs"]
        job = replicated["template"]["spec"]
        self.assertEqual((job["completionMode"], job["completions"]), ("Indexed", job["parallelism"]))
        container = self.check_pod(job["template"]["spec"])
        variable, = container["env"]
        self.assertEqual(variable["name"], "JOBSET_NAME")
        self.assertEqual(variable["valueFrom"]["fieldRef"]["fieldPath"], "metadata.labels['jobset.sigs.k8s.io/jobset-name']")
        # A pod's hostname is JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX, below the service of the set.
        first = f"{name}-{replicated['name']}-0"
        pods = [(container["args"], {"JOBSET_NAME": name, "HOSTNAME": f"{first}-{index}", "JOB_COMPLETION_INDEX": str(index)}, True)
                for index in range(job["completions"])]
        self.check_plans(container, pods, f"{first}-0.{name}:29400")

    def test_the_pods_of_a_trainjob_read_the_variables_of_the_runtime(self):
        job, = documents("trainjob.yaml")
        name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
        self.assertEqual((job["spec"]["runtimeRef"]["name"], trainer["command"]), ("torch-distributed", ["ddprun"]))
        # As the plugin `torch` of Kubeflow Trainer 2 sets them.
        pods = [(trainer["args"], {"PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
                                   "PET_NODE_RANK": str(index), "PET_MASTER_ADDR": f"{name}-node-0-0.{name}", "PET_MASTER_PORT": "29400",
                                   "JOB_COMPLETION_INDEX": str(index)}, True) for index in range(trainer["numNodes"])]
        self.check_plans({"resources": trainer["resourcesPerNode"]}, pods, f"{name}-node-0-0.{name}:29400")

    def test_the_pods_of_a_pytorchjob_read_the_variables_of_the_operator(self):
        job, = documents("pytorchjob.yaml")
        name, spec = job["metadata"]["name"], job["spec"]
        master, worker = (spec["pytorchReplicaSpecs"][kind] for kind in ("Master", "Worker"))
        nodes = master["replicas"] + worker["replicas"]
        container = self.check_pod(master["template"]["spec"])
        self.assertEqual((container["name"], container["command"]), ("pytorch", ["ddprun"]))
        self.assertEqual(worker["template"], master["template"])
        # As the training operator 1.7 and newer sets them without an elasticPolicy. ddprun's workers get variables of their own.
        per_node = int(spec["nprocPerNode"])
        pods = [(container["args"], {"PYTHONUNBUFFERED": "1", "MASTER_ADDR": f"{name}-master-0", "MASTER_PORT": "23456",
                                     "WORLD_SIZE": str(nodes * per_node), "RANK": str(index), "PET_NNODES": str(nodes),
                                     "PET_NODE_RANK": str(index), "PET_NPROC_PER_NODE": str(per_node)}, True) for index in range(nodes)]
        self.check_plans(container, pods, f"{name}-master-0:23456")

    def test_the_pods_of_a_statefulset_find_each_other_by_the_names_that_they_get(self):
        service, stateful = documents("statefulset.yaml")
        name, spec = stateful["metadata"]["name"], stateful["spec"]
        labels = spec["template"]["metadata"]["labels"]
        self.check_service(service, labels, spec["serviceName"])
        self.assertEqual((stateful["kind"], spec["selector"]["matchLabels"], spec["podManagementPolicy"]), ("StatefulSet", labels, "Parallel"))
        container = self.check_pod(spec["template"]["spec"])
        self.check_plans(container, [(container["args"], {"HOSTNAME": f"{name}-{index}"}, False) for index in range(spec["replicas"])],
                         f"{name}-0.{spec['serviceName']}:29400")

    @unittest.skipUnless(may_unshare(), "no namespaces of processes here (unshare)")
    def test_the_shell_of_a_statefulset_passes_sigterm_on_and_waits_after_a_success(self):
        _, stateful = documents("statefulset.yaml")
        container, = stateful["spec"]["template"]["spec"]["containers"]
        ready = self.folder / "ready"

        def start(script):
            pod = subprocess.Popen([*UNSHARE, *container["command"], "--nproc-per-node=1", "--output=raw", "--no-python", "sh", "-c", script],
                                   text=True, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={"PATH": f"{BIN}:/usr/bin:/bin", "OMP_NUM_THREADS": "1"})
            self.addCleanup(pod.stdout.close)
            self.addCleanup(pod.stderr.close)
            self.addCleanup(pod.wait)
            self.addCleanup(pod.kill)
            return pod

        def stop(pod):
            children = pathlib.Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()
            subprocess.run(["kill", "-TERM", *children], check=True)
            return pod.communicate(timeout=60)

        pod = start(f"trap 'echo saved; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done")
        until(lambda: ready.exists() or pod.poll() is not None, 30, "the worker did not start")
        out, err = stop(pod)
        self.assertEqual((pod.returncode, out), (143, "saved\n"), err)

        pod = start("exit 3")
        self.assertEqual(pod.wait(timeout=60), 3)

        # Nothing but the shell and its sleep is left after a success.
        pod = start(f"rm {ready}")
        until(lambda: not ready.exists() or pod.poll() is not None, 30, "the worker did not start")
        comms = f"cat /proc/$(cat /proc/{pod.pid}/task/{pod.pid}/children | tr -d ' ')/task/*/children"
        until(lambda: names_of(subprocess.run(["sh", "-c", comms], capture_output=True, text=True, check=False).stdout) == ["sleep"], 30,
              "the shell does not wait")
        self.assertIsNone(pod.poll())
        stop(pod)
        self.assertEqual(pod.returncode, 143)


def names_of(pids):
    names = []
    for pid in pids.split():
        try:
            names.append(pathlib.Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            names.append("")
    return names


if __name__ == "__main__":
    unittest.main()
