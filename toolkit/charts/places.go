package charts

import (
	"cmp"
	"fmt"
	"time"
)

// The charts of places and of days.

type geographicInput struct {
	Title       string      `json:"title"`
	Data        []geoRegion `json:"data"`
	GeoType     string      `json:"geoType"`
	ColorScale  string      `json:"colorScale"`
	Description string      `json:"description,omitempty"`
}

type geoRegion struct {
	RegionCode string  `json:"regionCode"`
	RegionName string  `json:"regionName"`
	Value      float64 `json:"value"`
}

var geographicChart = kind{
	name: "create_geographic_chart", chartType: "geographic", label: "map",
	description: "Draws a map whose regions are coloured by value.",
	schema: object(titleField,
		required("data", list(object(
			required("regionCode",
				label.about("Code of the region: ISO 3166 for countries, FIPS or postal code in the USA, DMA code")),
			required("regionName", label),
			required("value", number),
		), maxRegions)),
		required("geoType", enum("world", "usa-states", "usa-dma", "usa-counties")),
		optional("colorScale", enum("blues", "reds", "greens", "viridis").with("default", "blues")),
		descriptionField),
	build: build(checkGeographic),
}

func checkGeographic(in *geographicInput) (figure, error) {
	in.ColorScale = cmp.Or(in.ColorScale, "blues")
	seen := map[string]int{}
	for i, r := range in.Data {
		if first, ok := seen[r.RegionCode]; ok {
			return figure{}, fmt.Errorf("data[%d].regionCode %q is the same as data[%d].regionCode", i, r.RegionCode,
				first)
		}
		seen[r.RegionCode] = i
	}
	all := spanOf(in.Data, func(r geoRegion) float64 { return r.Value })
	f := all.figure(in.Title, fmt.Sprintf("%s of the map %s, values %s.", count(all.n, "region"), in.GeoType, all))
	f.metadata["regionCount"] = all.n
	return f, nil
}

type calendarInput struct {
	Title       string        `json:"title"`
	Data        []calendarDay `json:"data"`
	StartDate   string        `json:"startDate"`
	EndDate     string        `json:"endDate"`
	ColorScale  string        `json:"colorScale"`
	Description string        `json:"description,omitempty"`
}

type calendarDay struct {
	Date  string  `json:"date"`
	Value float64 `json:"value"`
}

var date = schema{"type": "string", "pattern": dateFormat, "description": "YYYY-MM-DD"}

var calendarHeatmap = kind{
	name: "create_calendar_heatmap", chartType: "calendar-heatmap", dataType: "calendar-heatmap",
	label:       "calendar heatmap",
	description: "Draws a calendar whose days are coloured by value.",
	schema: object(titleField,
		required("data", list(object(
			required("date", date),
			required("value", number),
		), maxDays)),
		optional("startDate", date),
		optional("endDate", date),
		optional("colorScale", enum("github", "blues", "greens", "reds").with("default", "github")),
		descriptionField),
	build: build(checkCalendar),
}

func checkCalendar(in *calendarInput) (figure, error) {
	in.ColorScale = cmp.Or(in.ColorScale, "github")
	// Dates of this form sort as text.
	first, last := in.Data[0].Date, in.Data[0].Date
	seen := map[string]int{}
	for i, d := range in.Data {
		field := fmt.Sprintf("data[%d].date", i)
		if _, err := parseDate(field, d.Date); err != nil {
			return figure{}, err
		}
		if other, ok := seen[d.Date]; ok {
			return figure{}, fmt.Errorf("%s %s is the same as data[%d].date", field, d.Date, other)
		}
		seen[d.Date] = i
		first, last = min(first, d.Date), max(last, d.Date)
	}
	in.StartDate, in.EndDate = cmp.Or(in.StartDate, first), cmp.Or(in.EndDate, last)
	start, err := parseDate("startDate", in.StartDate)
	if err != nil {
		return figure{}, err
	}
	end, err := parseDate("endDate", in.EndDate)
	switch {
	case err != nil:
		return figure{}, err
	case end.Before(start):
		return figure{}, fmt.Errorf("startDate %s must not be after endDate %s", in.StartDate, in.EndDate)
	case first < in.StartDate:
		return figure{}, fmt.Errorf("data[%d].date %s is before startDate %s", seen[first], first, in.StartDate)
	case last > in.EndDate:
		return figure{}, fmt.Errorf("data[%d].date %s is after endDate %s", seen[last], last, in.EndDate)
	}
	days := int(end.Sub(start).Hours()/24) + 1
	if days > maxDays {
		return figure{}, fmt.Errorf(
			"startDate %s to endDate %s is too long: a calendar covers %d days at most; make one for each year",
			in.StartDate, in.EndDate, maxDays)
	}
	all := spanOf(in.Data, func(d calendarDay) float64 { return d.Value })
	f := all.figure(in.Title,
		fmt.Sprintf("%s from %s to %s, values %s.", count(all.n, "day"), in.StartDate, in.EndDate, all))
	f.metadata["daysCovered"] = days
	f.metadata["dateRange"] = map[string]string{"start": in.StartDate, "end": in.EndDate}
	return f, nil
}

func parseDate(field, text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return day, fmt.Errorf("%s %q is not an existing date of the form YYYY-MM-DD", field, text)
	}
	return day, nil
}
