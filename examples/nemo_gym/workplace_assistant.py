"""NeMo Gym's workplace_assistant: 27 tools over five tables of an office."""

import json
from typing import Any

from resources_servers.workplace_assistant.utils import get_tools

TOOLKITS = ["email", "calendar", "analytics", "project_management"]
TOOLKITS += ["customer_relationship_manager"]
CASE_COUNTS = {"status", "list_name", "board"}  # columns that are compared as they are

Text = str | None
# A call of a solution: {"name": ..., "arguments": ...}, with the arguments as JSON
Call = dict[str, str]


class Office:
    """The tables, as the wheel's files have them, and the wheel's functions over them."""

    def __init__(self) -> None:
        office: Any = get_tools(TOOLKITS)
        self.functions, self.rooms = office["functions"], office["containers"]

    def tables(self) -> list[Any]:
        """The five tables as pandas has them, in lower case unless the case counts."""
        tables = [
            self.rooms["calendar"]._calendar_events,
            self.rooms["email"]._emails,
            self.rooms["analytics"]._plots_data,
            self.rooms["project_management"]._project_tasks,
            self.rooms["customer_relationship_manager"]._crm_data,
        ]
        return [
            table.apply(
                lambda column: (
                    column if column.name in CASE_COUNTS else column.str.lower()
                )
            )
            for table in tables
        ]


class WorkplaceAssistant:
    """One request, in the row's prompt. `solution` lists the calls that fulfill it.

    NeMo Gym's rows have them as `ground_truth`: rename that key.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self._solution: list[Call] = task.get("solution", [])
        self._office = Office()
        rooms = self._office.rooms
        self._directory, self._email = rooms["company_directory"], rooms["email"]
        self._calendar, self._analytics = rooms["calendar"], rooms["analytics"]
        self._projects = rooms["project_management"]
        self._customers = rooms["customer_relationship_manager"]

    def reward(self) -> float:
        """1.0 if the tables are as the solution leaves them, else 0.0."""
        solved = Office()
        for call in self._solution:
            solved.functions[call["name"]](**json.loads(call["arguments"]))
        pairs = zip(self._office.tables(), solved.tables(), strict=True)
        return float(all(ours.equals(theirs) for ours, theirs in pairs))

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        solution = task["solution"]
        return [(call["name"], json.loads(call["arguments"])) for call in solution]

    # ------------------------------------------------------------------ the tools
    def company_directory_find_email_address(self, name: str = "") -> Any:
        """Find the addresses that contain a name."""
        return self._directory.find_email_address(name)

    def email_get_email_information_by_id(self, email_id: str, field: str) -> Any:
        """Read one field of an email."""
        return self._email.get_email_information_by_id(email_id, field)

    def email_search_emails(
        self,
        query: str = "",
        date_min: Text = None,
        date_max: Text = None,
        page: int = 1,
        page_size: int = 5,
    ) -> Any:
        """Find emails that contain all words of a query. Dates are YYYY-MM-DD."""
        return self._email.search_emails(query, date_min, date_max, page, page_size)

    def email_send_email(self, recipient: str, subject: str, body: str) -> Any:
        """Send an email."""
        return self._email.send_email(recipient, subject, body)

    def email_delete_email(self, email_id: str) -> Any:
        """Delete an email."""
        return self._email.delete_email(email_id)

    def email_forward_email(self, email_id: str, recipient: str) -> Any:
        """Forward an email."""
        return self._email.forward_email(email_id, recipient)

    def email_reply_email(self, email_id: str, body: str) -> Any:
        """Reply to an email."""
        return self._email.reply_email(email_id, body)

    def calendar_get_event_information_by_id(self, event_id: str, field: str) -> Any:
        """Read one field of an event."""
        return self._calendar.get_event_information_by_id(event_id, field)

    def calendar_search_events(
        self,
        query: str = "",
        time_min: Text = None,
        time_max: Text = None,
        page: int = 1,
        page_size: int = 5,
    ) -> Any:
        """Find events. Times are YYYY-MM-DD HH:MM:SS."""
        return self._calendar.search_events(query, time_min, time_max, page, page_size)

    def calendar_create_event(
        self, event_name: str, participant_email: str, event_start: str, duration: str
    ) -> Any:
        """Create an event. Its duration is in minutes."""
        return self._calendar.create_event(
            event_name, participant_email, event_start, duration
        )

    def calendar_delete_event(self, event_id: str) -> Any:
        """Delete an event."""
        return self._calendar.delete_event(event_id)

    def calendar_update_event(self, event_id: str, field: str, new_value: str) -> Any:
        """Change one field of an event."""
        return self._calendar.update_event(event_id, field, new_value)

    def analytics_get_visitor_information_by_id(self, visitor_id: str) -> Any:
        """Read the visits of a visitor."""
        return self._analytics.get_visitor_information_by_id(visitor_id)

    def analytics_create_plot(
        self, time_min: str, time_max: str, value_to_plot: str, plot_type: str
    ) -> Any:
        """Plot a value over a range of dates, YYYY-MM-DD."""
        return self._analytics.create_plot(time_min, time_max, value_to_plot, plot_type)

    def analytics_total_visits_count(
        self, time_min: Text = None, time_max: Text = None
    ) -> Any:
        """Count the visits in a range of dates."""
        return self._analytics.total_visits_count(time_min, time_max)

    def analytics_engaged_users_count(
        self, time_min: Text = None, time_max: Text = None
    ) -> Any:
        """Count the engaged users in a range of dates."""
        return self._analytics.engaged_users_count(time_min, time_max)

    def analytics_traffic_source_count(
        self, time_min: Text = None, time_max: Text = None, traffic_source: Text = None
    ) -> Any:
        """Count the visits from a source."""
        return self._analytics.traffic_source_count(time_min, time_max, traffic_source)

    def analytics_get_average_session_duration(
        self, time_min: Text = None, time_max: Text = None
    ) -> Any:
        """Average the sessions' durations."""
        return self._analytics.get_average_session_duration(time_min, time_max)

    def project_management_get_task_information_by_id(
        self, task_id: str, field: str
    ) -> Any:
        """Read one field of a task."""
        return self._projects.get_task_information_by_id(task_id, field)

    def project_management_search_tasks(
        self,
        task_name: Text = None,
        assigned_to_email: Text = None,
        list_name: Text = None,
        due_date: Text = None,
        board: Text = None,
    ) -> Any:
        """Find tasks."""
        return self._projects.search_tasks(
            task_name, assigned_to_email, list_name, due_date, board
        )

    def project_management_create_task(
        self,
        task_name: str,
        assigned_to_email: str,
        list_name: str,
        due_date: str,
        board: str,
    ) -> Any:
        """Create a task."""
        return self._projects.create_task(
            task_name, assigned_to_email, list_name, due_date, board
        )

    def project_management_delete_task(self, task_id: str) -> Any:
        """Delete a task."""
        return self._projects.delete_task(task_id)

    def project_management_update_task(
        self, task_id: str, field: str, new_value: str
    ) -> Any:
        """Change one field of a task."""
        return self._projects.update_task(task_id, field, new_value)

    def customer_relationship_manager_search_customers(
        self,
        customer_name: Text = None,
        customer_email: Text = None,
        product_interest: Text = None,
        status: Text = None,
        assigned_to_email: Text = None,
        last_contact_date_min: Text = None,
        last_contact_date_max: Text = None,
        follow_up_by_min: Text = None,
        follow_up_by_max: Text = None,
        page: int = 1,
        page_size: int = 5,
    ) -> Any:
        """Find customers. Dates are YYYY-MM-DD."""
        return self._customers.search_customers(
            customer_name,
            customer_email,
            product_interest,
            status,
            assigned_to_email,
            last_contact_date_min,
            last_contact_date_max,
            follow_up_by_min,
            follow_up_by_max,
            page,
            page_size,
        )

    def customer_relationship_manager_update_customer(
        self, customer_id: str, field: str, new_value: str
    ) -> Any:
        """Change one field of a customer."""
        return self._customers.update_customer(customer_id, field, new_value)

    def customer_relationship_manager_add_customer(
        self,
        customer_name: str,
        assigned_to_email: str,
        status: str,
        customer_email: Text = None,
        customer_phone: Text = None,
        last_contact_date: Text = None,
        product_interest: Text = None,
        notes: str = "",
        follow_up_by: Text = None,
    ) -> Any:
        """Add a customer."""
        return self._customers.add_customer(
            customer_name,
            assigned_to_email,
            status,
            customer_email,
            customer_phone,
            last_contact_date,
            product_interest,
            notes,
            follow_up_by,
        )

    def customer_relationship_manager_delete_customer(self, customer_id: str) -> Any:
        """Delete a customer."""
        return self._customers.delete_customer(customer_id)
