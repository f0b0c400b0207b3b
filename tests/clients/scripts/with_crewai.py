"""CrewAI: the second task gets what the first one answered."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from scenario import FIRST, SECOND, URL, Review, refund_payment, step


def model(**options):
    return LLM(model="openai/demo", base_url=f"{URL}/v1", api_key="none-needed", temperature=0, **options)


def run(asks, **options):
    clerk = Agent(
        role="clerk",
        goal="refund",
        backstory="-",
        tools=[tool(refund_payment)],
        llm=model(**options),
        max_iter=4,
    )
    tasks = []
    for ask in asks:
        tasks.append(Task(description=ask, expected_output="what was done", agent=clerk, context=list(tasks)))
    assert str(Crew(agents=[clerk], tasks=tasks).kickoff())


with step("calls", 1):
    run([FIRST])
with step("second turn", 2):
    run([FIRST, SECOND])
with step("streamed", 2):
    run([FIRST, SECOND], stream=True)
with step("structured"):
    reviewer = Agent(role="reviewer", goal="review", backstory="-", llm=model())
    task = Task(description=FIRST, expected_output="a review", agent=reviewer, output_pydantic=Review)
    assert isinstance(Crew(agents=[reviewer], tasks=[task]).kickoff().pydantic, Review)
