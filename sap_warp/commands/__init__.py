"""The sub-commands of `sap-warp`, one module each: `add_parser` declares it and sets ``command`` to what runs it."""

SUMMARIES = {
    "run": "simulate a scene and print a summary",
    "view": "simulate a scene in a page of the browser",
    "plot": "simulate a scene and draw or write signals over time",
    "sweep": "run a scene with many values of its parameters",
    "bench": "measure how fast a scene runs",
    "check": "validate a scene file and say what is in it",
    "diagnose": "run a scene and say what goes wrong, why, and what to change",
    "explain": "say which values a pair of shapes uses in contact and what to expect of it",
    "train": "learn a task",
    "play": "try a policy that was learned",
    "compare-presets": "measure what precision and contact model change in one step",
    "validate": "compare with Drake, MuJoCo and closed forms, and print the table",
    "presets": "print what each preset chooses",
    "robots": "list the robots that 'run --robot' and from_robot know",
    "schema": "print the JSON schema of scene files, for editors",
    "completion": "print a script that completes this command in a shell",
}
"""What each sub-command does, in the order of `sap-warp --help`; a module is imported when its command is named."""
