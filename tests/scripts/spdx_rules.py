"""What the specification of SPDX 2.3 requires of a document, as far as our SBOM has such elements.

https://spdx.github.io/spdx-spec/v2.3/, clauses 6 (document), 7 (packages), 8 (files), 11 (relationships), annex D (licences).
"""

import re

IDENTIFIER = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
# The licences and exceptions of the SPDX licence list that occur here.
LICENSES = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "GPL-3.0-or-later", "IJG", "ISC", "LGPL-2.1-or-later", "MIT", "X11-distribute-modifications-variant", "Zlib",
            "libpng-2.0"}
EXCEPTIONS = {"GCC-exception-2.0-note", "GCC-exception-3.1", "LLVM-exception"}
RELATIONSHIPS = {"DESCRIBES", "STATIC_LINK", "GENERATED_FROM"}
DIGITS = {"SHA1": 40, "SHA256": 64}


def license_is_valid(text):
    for part in str(text).split(" AND "):
        license_, _, exception = part.partition(" WITH ")
        if license_ not in LICENSES or (exception or part != license_) and exception not in EXCEPTIONS:
            return text == "NOASSERTION"
    return True


def required(element, fields, name):
    return [f"{name} has no {field}" for field in fields if not isinstance(element.get(field), (str, list, dict)) or not element[field]]


def license_violations(element, name):
    return [f"{name}: {element[field]} is no licence expression" for field in ("licenseConcluded", "licenseDeclared")
            if field in element and not license_is_valid(element[field])]


def document_violations(document):
    found = required(document, ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"), "the document")
    for field, value in (("spdxVersion", "SPDX-2.3"), ("dataLicense", "CC0-1.0"), ("SPDXID", "SPDXRef-DOCUMENT")):
        if document.get(field) != value:
            found.append(f"{field} is not {value}")
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^#\s]+", document.get("documentNamespace", "")):
        found.append("documentNamespace is no URI without a fragment")
    creation = document.get("creationInfo", {})
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", creation.get("created", "")):
        found.append(f"created is {creation.get('created')}, no time in UTC")
    creators = creation.get("creators", [])
    if not creators or not all(re.match(r"(Person|Organization|Tool): \S", creator) for creator in creators):
        found.append("creators are not of the form Tool: NAME")
    return found


def package_violations(package):
    name = f"the package {package.get('name')}"
    found = required(package, ("SPDXID", "name", "downloadLocation"), name) + license_violations(package, name)
    # True is the default, and then a verification code of the files is required.
    if package.get("filesAnalyzed", True) and "packageVerificationCode" not in package:
        found.append(f"{name} has no packageVerificationCode")
    for reference in package.get("externalRefs", []):
        found += required(reference, ("referenceCategory", "referenceType", "referenceLocator"), f"a reference of {name}")
        if not re.fullmatch(r"pkg:[a-z]+(/[A-Za-z0-9.+_-]+)+@[A-Za-z0-9.%_~-]+(\?arch=source)?", reference.get("referenceLocator", "")):
            found.append(f"{name}: {reference.get('referenceLocator')} is no package URL")
    return found


def file_violations(entry):
    name = f"the file {entry.get('fileName')}"
    found = required(entry, ("SPDXID", "fileName", "checksums"), name) + license_violations(entry, name)
    if not str(entry.get("fileName")).startswith("./"):
        found.append(f"{name} does not begin with ./")
    sums = {sum_.get("algorithm"): sum_.get("checksumValue", "") for sum_ in entry.get("checksums", [])}
    if "SHA1" not in sums:
        found.append(f"{name} has no SHA1")
    found += [f"{name}: {kind} is {value}" for kind, value in sums.items() if not re.fullmatch(f"[0-9a-f]{{{DIGITS[kind]}}}", value)]
    return found


def relationship_violations(document, identifiers):
    found = []
    described = set()
    for relation in document.get("relationships", []):
        ends = (relation.get("spdxElementId"), relation.get("relatedSpdxElement"))
        found += [f"a relationship names {end}, which does not exist" for end in ends if end not in identifiers]
        if relation.get("relationshipType") not in RELATIONSHIPS:
            found.append(f"{relation.get('relationshipType')} is no type of relationship")
        if ends[0] == "SPDXRef-DOCUMENT" and relation.get("relationshipType") == "DESCRIBES":
            described.add(ends[1])
    return found if described else [*found, "no relationship DESCRIBES what the document is about"]


def violations(document):
    """Each rule that the document breaks, in words."""
    elements = [document, *document.get("packages", []), *document.get("files", [])]
    identifiers = [element.get("SPDXID") for element in elements]
    found = document_violations(document)
    found += [f"{one} is no SPDXID" for one in identifiers if not IDENTIFIER.fullmatch(str(one))]
    if len(set(identifiers)) != len(identifiers):
        found.append("an SPDXID occurs twice")
    for package in document.get("packages", []):
        found += package_violations(package)
    for entry in document.get("files", []):
        found += file_violations(entry)
    return found + relationship_violations(document, set(identifiers))
