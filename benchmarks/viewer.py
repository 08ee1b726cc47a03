"""How many frames per second a page shows: `python benchmarks/viewer.py [SCENE] [--num-worlds N]`.

Opens the page in a headless Chromium without a graphics card, lets the scene run, and counts animation frames at the
page, frames sent, and processor time of the browser. On a computer that does something else as well, look at the
processor time: two cores have 2 s of it per second.
"""

import argparse
import os
import shutil
import time
from pathlib import Path

from sap_warp import Simulation
from sap_warp.look.viewer import Viewer

COUNT = "() => { window.frames_seen = 0; (function next() { window.frames_seen++; requestAnimationFrame(next) })() }"


def browser_seconds(root):
    """Processor time of a process and all that it has started [s]."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def belongs(process):
        while process in parents and process != root:
            process = parents[process]
        return process == root

    return sum(seconds for process, seconds in used.items() if belongs(process) and process != root)


def measure(page, viewer, seconds):
    """Frames at the page and sent, per second, and processor time per frame [ms]."""
    start, sent = time.perf_counter(), viewer.frame_count
    seen, used = page.evaluate("window.frames_seen"), browser_seconds(os.getpid())
    page.wait_for_timeout(1e3 * seconds)
    elapsed = time.perf_counter() - start
    frames = page.evaluate("window.frames_seen") - seen
    busy = browser_seconds(os.getpid()) - used
    return frames / elapsed, (viewer.frame_count - sent) / elapsed, 1e3 * busy / max(frames, 1), busy / elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", default="humanoid")
    parser.add_argument("--num-worlds", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of three measurements")
    parser.add_argument("--warm-up", type=float, default=10.0, help="until shaders are compiled [s]")
    parser.add_argument("--viewer-fps", type=float, help="frames sent per second")
    parser.add_argument("--size", default="640x480", help="of the page")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    width, height = map(int, arguments.size.split("x"))
    sim = Simulation.from_scene(arguments.scene, num_worlds=arguments.num_worlds)
    sim.prepare()
    with Viewer(sim, port=0, viewer_fps=arguments.viewer_fps) as viewer, sync_playwright() as driver:
        viewer.start()
        drawing = ["--ignore-gpu-blocklist", "--use-gl=angle", "--use-angle=gl-egl"]
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", *drawing])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(viewer.url)
        page.evaluate(COUNT)
        page.wait_for_timeout(1e3 * arguments.warm_up)
        print(f"{arguments.num_worlds} worlds of {arguments.scene}, {arguments.size}")
        for _ in range(3):
            at_page, sent, cost, share = measure(page, viewer, arguments.seconds)
            print(
                f"at the page {at_page:.1f}/s, sent {sent:.1f}/s, browser {cost:.0f} ms of processor time per frame "
                f"({share:.2f} cores), simulation at {viewer._controls.status.ratio:.2f} of real time",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
