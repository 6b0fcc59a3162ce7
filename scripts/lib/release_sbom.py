"""Writes the SBOM of a release: SPDX 2.3 in JSON, with the files and what is linked into their programs.

The parts and their licences are the table of THIRD_PARTY_NOTICES; their versions are those that scripts/package has used:
Debian's header packages, PyPI's ziglang, and Debian's sources of oneDNN.
"""

import argparse
import dataclasses
import fnmatch
import hashlib
import json
import pathlib
import re
import time
import urllib.parse
from typing import Any

import package_files

ROW = re.compile(r"^    (\S.*?) {2,}(\S.*?) {2,}(\S+) {2,}(\S.*)$")


@dataclasses.dataclass(frozen=True)
class Part:
    """One row of the table: a project, its licence, the packages that its code comes from (a pattern), and the programs with it."""

    name: str
    license: str
    source: str
    programs: str


@dataclasses.dataclass(frozen=True)
class Used:
    """A package that was used: of Debian or of PyPI."""

    name: str
    version: str
    kind: str
    qualifiers: str = ""

    def locator(self) -> str:
        """Its package URL."""
        return f"pkg:{self.kind}/{self.name}@{urllib.parse.quote(self.version, safe='')}{self.qualifiers}"


def parts(notices: str) -> list[Part]:
    found = [Part(*match.groups()) for match in map(ROW.match, notices.splitlines()) if match]
    if not found:
        raise SystemExit("release: THIRD_PARTY_NOTICES has no table of parts")
    return found


def used_packages(headers: str, tools: str, onednn: str) -> list[Used]:
    """What scripts/package wrote down: `NAME VERSION ...` of Debian's packages, `NAME==VERSION ...` of PyPI's, `VERSION ...` of oneDNN."""
    words = headers.split()
    if len(words) % 2 or not words:
        raise SystemExit("release: headers/versions below build/package is not a list of packages and versions: remove that folder, and build again")
    debian = [Used(name, version, "deb/debian") for name, version in dict.fromkeys(zip(words[::2], words[1::2]))]
    debian.append(Used("onednn", onednn.split()[0], "deb/debian", "?arch=source"))
    return debian + [Used(name, version, "pypi") for name, version in re.findall(r"(\S+)==(\S+)", tools)]


def linked(table: list[Part], used: list[Used]) -> list[tuple[Part, Used]]:
    """Each part with the package that it came from. A package without a row ends the program: its licence is not known."""
    unknown = [package.name for package in used if not any(fnmatch.fnmatchcase(package.name, part.source) for part in table)]
    if unknown:
        raise SystemExit(f"release: the table of THIRD_PARTY_NOTICES has no row for {', '.join(unknown)}: add its project and licence")
    pairs = []
    for part in table:
        matching = [package for package in used if fnmatch.fnmatchcase(package.name, part.source)]
        if matching:
            pairs.append((part, matching[0]))
    return pairs


def identifier(kind: str, name: str) -> str:
    return f"SPDXRef-{kind}-{re.sub('[^A-Za-z0-9.]+', '-', name).strip('-')}"


def file_entry(path: pathlib.Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {
        "SPDXID": identifier("File", path.name),
        "fileName": f"./{path.name}",
        "checksums": [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, content).hexdigest()} for name in ("sha1", "sha256")],
        "licenseConcluded": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }


def package_entry(name: str, version: str, spdx_license: str, **more: Any) -> dict[str, Any]:
    return {
        "SPDXID": identifier("Package", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": spdx_license,
        "licenseDeclared": spdx_license,
        "copyrightText": "NOASSERTION",
        **more,
    }


def part_entry(part: Part, package: Used) -> dict[str, Any]:
    return package_entry(part.name, package.version, part.license,
                         comment=f"Linked into {part.programs}; its code is from the package {package.name}.",
                         externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.locator()}])


def document(version: str, commit: str, seconds: int, files: list[pathlib.Path], pairs: list[tuple[Part, Used]]) -> dict[str, Any]:
    """The whole SBOM; the same for the same arguments and files."""
    entries = [file_entry(path) for path in sorted(files)]
    digest = hashlib.sha256(json.dumps([commit, entries]).encode()).hexdigest()
    own = package_entry("ddprun", version, "Apache-2.0", primaryPackagePurpose="APPLICATION", sourceInfo=f"git commit {commit}")
    packages = [own, *(part_entry(part, package) for part, package in pairs)]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relations += [(own["SPDXID"], "STATIC_LINK", entry["SPDXID"]) for entry in packages[1:]]
    relations += [(entry["SPDXID"], "GENERATED_FROM", own["SPDXID"]) for entry in entries]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"ddprun-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/ddprun-{version}-{digest[:32]}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)), "creators": [f"Tool: ddprun-release-{version}"]},
        "packages": packages,
        "files": entries,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=pathlib.Path, required=True, help="the folder with the files of the release")
    parser.add_argument("--used", type=pathlib.Path, nargs="+", required=True, help="where scripts/package wrote what it used, a folder for each architecture")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="what scripts/package installed from PyPI")
    parser.add_argument("--commit", required=True, help="the commit that was built")
    parser.add_argument("--time", type=int, required=True, help="the time of the document, in seconds since 1970")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the SBOM")
    given = parser.parse_args()
    try:
        headers, onednn = (" ".join((folder / name).read_text() for folder in given.used) for name in ("headers/versions", "onednn/installed/made-of"))
        used = used_packages(headers, given.tools.read_text(), onednn)
    except OSError as error:
        raise SystemExit(f"release: {error.filename}: {error.strerror}: scripts/package writes it; run that first") from None
    table = parts((package_files.ROOT / "THIRD_PARTY_NOTICES").read_text(encoding="utf-8"))
    files = [path for path in given.files.iterdir() if path != given.output]
    text = document(package_files.version(), given.commit, given.time, files, linked(table, used))
    given.output.write_text(json.dumps(text, indent=2) + "\n")
    print(f"{given.output}: {len(text['packages']) - 1} parts, {len(text['files'])} files")


if __name__ == "__main__":
    main()
