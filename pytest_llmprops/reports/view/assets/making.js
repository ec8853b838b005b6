"use strict";
// Waits until the server has built a report, then opens it at the place in the address.
async function wait() {
  let build;
  try {
    const answer = await fetch("state");
    if (!answer.ok) throw new Error((await answer.text()).trim());
    build = await answer.json();
  } catch (error) {
    return failed(error instanceof TypeError ? "The server does not answer. Start llmprops view again." : error.message);
  }
  document.getElementById("names").textContent = build.runs.join(" → ");
  if (build.state === "built") return location.replace(`report.html${location.hash}`);
  if (build.state === "failed") return failed(build.problem);
  document.getElementById("doing").textContent = `${build.doing[0].toUpperCase()}${build.doing.slice(1)}…`;
  document.getElementById("time").textContent = `${build.seconds} s`;
  return setTimeout(wait, 300);
}

function failed(problem) {
  document.getElementById("title").textContent = "The report could not be built";
  document.getElementById("doing").textContent = problem;
  document.getElementById("progress").hidden = true;
}

theme();
wait();
