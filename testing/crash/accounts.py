"""Users, vhosts and permissions that an operator makes, changes and deletes, and what has to be true of them afterwards.

Everything goes through the control command, one process for each step, so that an answer is an exit code 0. The objects that a step touches are
unknown from its begin to its answer; after the answer it is known, and a broker that comes back has to agree. Knows no AMQP.
"""

import json
import subprocess

GONE = "gone"
CHECKED_MAX = 25             # newest vhosts whose permissions are listed, newest users whose passwords are tried
ROUNDS_MAX = 60              # per life


class Disagreement(Exception):
    """A broker that does not know what it has answered."""


class Accounts:
    """The known facts, by kind and names, newest last."""

    def __init__(self, command):
        self.command = command
        self.facts = {}
        self.answered = set()        # names in steps that were answered: their records are promised

    def ctl(self, *words):
        return subprocess.run([*self.command, *words], capture_output=True, text=True, timeout=30)

    def change(self, words, names, facts):
        """One step; raises OSError when the broker does not answer."""
        for fact in facts:
            self.facts.pop(fact, None)
        done = self.ctl("-q", *words)
        if done.returncode != 0:
            # A node that stops does not take the command, as RabbitMQ.
            if done.returncode in (69, 75) or "app to be running on the target node" in done.stderr:
                raise OSError(done.stderr.splitlines()[0] if done.stderr else "no answer")
            raise Disagreement(f"{' '.join(words)} was refused with {done.returncode}: {done.stderr.strip()}")
        self.facts.update(facts)
        self.answered.update(names)

    def work(self, cycle, stopping):
        """Steps without a pause until told to stop, or the broker is gone (OSError)."""
        for number in range(ROUNDS_MAX):
            if stopping():
                return
            self.round(f"k9a.{cycle}.{number}.", number, f"k9a.{cycle}.{number - 1}.")

    def round(self, name, number, before):
        self.change(("add_vhost", name), [name], {("vhost", name): True})
        self.change(("add_user", name, "first"), [name], {("user", name): True, ("password", name): "first", ("tags", name): ()})
        self.change(("set_permissions", "-p", name, name, "^c", "^w", "^r"), [name], {("permissions", name, name): ("^c", "^w", "^r")})
        self.change(("set_user_tags", name, "management", "monitoring"), [name], {("tags", name): ("management", "monitoring")})
        if number % 3 == 0:
            self.change(("change_password", name, "second"), [name], {("password", name): "second"})
            self.change(("set_permissions", "-p", name, name, "", "^w2", ".*"), [name], {("permissions", name, name): ("", "^w2", ".*")})
        elif number % 3 == 1:
            self.change(("clear_permissions", "-p", before, before), [before], {("permissions", before, before): GONE})
        else:
            self.forget(("password", before), ("tags", before))
            self.change(("delete_user", before), [before], {("user", before): GONE, ("permissions", before, before): GONE})
            self.change(("delete_vhost", before), [before], {("vhost", before): GONE, ("permissions", before, before): GONE})

    def forget(self, *facts):
        for fact in facts:
            self.facts.pop(fact, None)

    def known(self, kind):
        return [(fact[1:], value) for fact, value in self.facts.items() if fact[0] == kind]

    def listed(self, *words):
        done = self.ctl("-q", *words, "--formatter", "json")
        if done.returncode:
            raise Disagreement(f"{' '.join(words)} fails with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def check(self):
        """Compares everything known with what the broker says now; raises Disagreement."""
        users = {row["user"]: tuple(row["tags"]) for row in self.listed("list_users")}
        vhosts = {row["name"] for row in self.listed("list_vhosts", "name")}
        for kind, there in (("user", users), ("vhost", vhosts)):
            for (name,), value in self.known(kind):
                if (name in there) != (value is True):
                    raise Disagreement(f"{kind} {name} was {'deleted and is there again' if value is GONE else 'made and is gone'}")
        for (name,), tags in self.known("tags"):
            if sorted(users.get(name, ())) != sorted(tags):
                raise Disagreement(f"user {name} has tags {users.get(name)}, answered was {tags}")
        for (vhost, user), wanted in self.known("permissions")[-CHECKED_MAX:]:
            if vhost in vhosts:
                self.check_permissions(vhost, user, wanted)
        for (name,), password in self.known("password")[-CHECKED_MAX:]:
            if self.ctl("-q", "authenticate_user", name, password).returncode:
                raise Disagreement(f"the password of user {name} is not what was answered")

    def check_permissions(self, vhost, user, wanted):
        rows = [row for row in self.listed("list_permissions", "-p", vhost) if row["user"] == user]
        found = tuple(rows[0][part] for part in ("configure", "write", "read")) if rows else GONE
        if found != wanted:
            raise Disagreement(f"user {user} has permissions {found} in vhost {vhost}, answered was {wanted}")

    def summary(self):
        return f"{len(self.facts)} facts about users, vhosts and permissions"
