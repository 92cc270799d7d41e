import{Bt as e,Et as t,Ht as n,Mt as r,Ut as i,Vt as a,Wt as o,bt as s}from"./base.js";var c={bar:`Balkendiagramm`,line:`Liniendiagramm`,area:`Flächendiagramm`,composed:`Kombiniertes Diagramm`,scatter:`Streudiagramm`,pie:`Kreisdiagramm`,radar:`Netzdiagramm`,funnel:`Trichterdiagramm`,gauge:`Tachodiagramm`,"radial-bar":`Kreisförmiges Balkendiagramm`,treemap:`Kacheldiagramm`,sankey:`Sankey-Diagramm`,"calendar-heatmap":`Kalender-Heatmap`,geographic:`Karte`},l={name:`Diagramm`,failed:`Das Diagramm konnte nicht gezeichnet werden. Die Daten stehen darunter.`,notLoaded:`Was Diagramme zeichnet, konnte nicht geladen werden. Die Daten stehen darunter.`,label:(e,t)=>`${c[e]??`Diagramm`}: ${t}`,fields:{xAxisLabel:`Kategorie`,label:`Bezeichnung`,value:`Wert`,name:`Name`,seriesName:`Reihe`,metric:`Merkmal`,stage:`Stufe`,date:`Datum`,regionCode:`Code der Region`,regionName:`Region`,minValue:`Minimum`,maxValue:`Maximum`,unit:`Einheit`,source:`Von`,target:`Nach`,fill:`Farbe`},up:`gestiegen`,down:`gefallen`,unchanged:`unverändert`,compared:`Verglichen mit`,yes:`Ja`,no:`Nein`,search:`Suchen`,searchTable:`Tabelle durchsuchen`,rows:(e,t)=>`${e} von ${t} Zeilen`,noRows:`Keine Zeilen.`,more:`mehr`,less:`weniger`,noMatch:`Keine passenden Zeilen.`,sortBy:e=>`Nach ${e} sortieren`,table:`Tabelle`,page:(e,t)=>`Seite ${e} von ${t}`,nextPage:`Nächste Seite`,previousPage:`Vorige Seite`,noMap:`Für diese Regionen gibt es keine Karte, deshalb sind sie der Größe nach geordnet.`,notOnMap:e=>`Nicht auf der Karte: ${e}`,save:`Speichern als`,full:`Vollbild`,leaveFull:`Vollbild beenden`,notSaved:`Das Bild konnte nicht gespeichert werden. Versuchen Sie SVG oder CSV.`,canvasEmpty:`Hier werden die Diagramme und Tabellen dieser Unterhaltung gesammelt.`},u={bar:`bar chart`,line:`line chart`,area:`area chart`,composed:`combined chart`,scatter:`scatter chart`,pie:`pie chart`,radar:`radar chart`,funnel:`funnel chart`,gauge:`gauge`,"radial-bar":`radial bar chart`,treemap:`treemap`,sankey:`Sankey diagram`,"calendar-heatmap":`calendar heatmap`,geographic:`map`},d=r({name:`Chart`,failed:`The chart could not be drawn. Its data is below.`,notLoaded:`What draws charts could not be loaded. Its data is below.`,label:(e,t)=>`${u[e]??`chart`}: ${t}`,fields:{xAxisLabel:`Category`,label:`Label`,value:`Value`,name:`Name`,seriesName:`Series`,metric:`Metric`,stage:`Stage`,date:`Date`,regionCode:`Region code`,regionName:`Region`,minValue:`Minimum`,maxValue:`Maximum`,unit:`Unit`,source:`From`,target:`To`,fill:`Colour`},up:`up`,down:`down`,unchanged:`unchanged`,compared:`Compared with`,yes:`Yes`,no:`No`,search:`Search`,searchTable:`Search the table`,rows:(e,t)=>`${e} of ${t} rows`,noRows:`No rows.`,more:`more`,less:`less`,noMatch:`No rows match.`,sortBy:e=>`Sort by ${e}`,table:`Table`,page:(e,t)=>`Page ${e} of ${t}`,nextPage:`Next page`,previousPage:`Previous page`,noMap:`There is no map of these regions, so they are ranked instead.`,notOnMap:e=>`Not on the map: ${e}`,save:`Save as`,full:`Full screen`,leaveFull:`Exit full screen`,notSaved:`The picture could not be saved. Try SVG or CSV.`,canvasEmpty:`This conversation’s charts and tables are collected here.`},l);function f(e){return typeof e==`number`&&Number.isFinite(e)?t(e):String(e??`–`)}function p(e){return Math.abs(e)>=1e4?s(e):t(e)}function m(e,t){return t===``?e:/^[$€£¥]$/.test(t)?`${t}${e}`:/^[%°]/.test(t)?`${e}${t}`:`${e} ${t}`}function h(e,t){return{color:e.series,backgroundColor:`transparent`,textStyle:{fontFamily:e.font,color:e.text,fontSize:12},animationDuration:500,...t}}function g(e,t,n={}){return{trigger:t,renderMode:`richText`,confine:!0,backgroundColor:e.surface,borderColor:e.line,textStyle:{color:e.text,fontFamily:e.font,fontSize:12},valueFormatter:f,...n}}function _(e,t){return{show:t.length>1,type:`scroll`,bottom:0,icon:`roundRect`,itemWidth:10,itemHeight:10,itemGap:16,formatter:e=>v(e),textStyle:{color:e.muted},pageTextStyle:{color:e.muted},pageIconColor:e.muted,data:t}}function v(e,t=24){return e.length>t?`${e.slice(0,t-1)}…`:e}var y=`ADAND020 AEARE784 AFAFG004 AGATG028 AIAIA660 ALALB008 AMARM051 AOAGO024 AQATA010 ARARG032 ASASM016
  ATAUT040 AUAUS036 AWABW533 AXALA248 AZAZE031 BABIH070 BBBRB052 BDBGD050 BEBEL056 BFBFA854 BGBGR100
  BHBHR048 BIBDI108 BJBEN204 BLBLM652 BMBMU060 BNBRN096 BOBOL068 BQBES535 BRBRA076 BSBHS044 BTBTN064
  BVBVT074 BWBWA072 BYBLR112 BZBLZ084 CACAN124 CCCCK166 CDCOD180 CFCAF140 CGCOG178 CHCHE756 CICIV384
  CKCOK184 CLCHL152 CMCMR120 CNCHN156 COCOL170 CRCRI188 CUCUB192 CVCPV132 CWCUW531 CXCXR162 CYCYP196
  CZCZE203 DEDEU276 DJDJI262 DKDNK208 DMDMA212 DODOM214 DZDZA012 ECECU218 EEEST233 EGEGY818 EHESH732
  ERERI232 ESESP724 ETETH231 FIFIN246 FJFJI242 FKFLK238 FMFSM583 FOFRO234 FRFRA250 GAGAB266 GBGBR826
  GDGRD308 GEGEO268 GFGUF254 GGGGY831 GHGHA288 GIGIB292 GLGRL304 GMGMB270 GNGIN324 GPGLP312 GQGNQ226
  GRGRC300 GSSGS239 GTGTM320 GUGUM316 GWGNB624 GYGUY328 HKHKG344 HMHMD334 HNHND340 HRHRV191 HTHTI332
  HUHUN348 IDIDN360 IEIRL372 ILISR376 IMIMN833 ININD356 IOIOT086 IQIRQ368 IRIRN364 ISISL352 ITITA380
  JEJEY832 JMJAM388 JOJOR400 JPJPN392 KEKEN404 KGKGZ417 KHKHM116 KIKIR296 KMCOM174 KNKNA659 KPPRK408
  KRKOR410 KWKWT414 KYCYM136 KZKAZ398 LALAO418 LBLBN422 LCLCA662 LILIE438 LKLKA144 LRLBR430 LSLSO426
  LTLTU440 LULUX442 LVLVA428 LYLBY434 MAMAR504 MCMCO492 MDMDA498 MEMNE499 MFMAF663 MGMDG450 MHMHL584
  MKMKD807 MLMLI466 MMMMR104 MNMNG496 MOMAC446 MPMNP580 MQMTQ474 MRMRT478 MSMSR500 MTMLT470 MUMUS480
  MVMDV462 MWMWI454 MXMEX484 MYMYS458 MZMOZ508 NANAM516 NCNCL540 NENER562 NFNFK574 NGNGA566 NINIC558
  NLNLD528 NONOR578 NPNPL524 NRNRU520 NUNIU570 NZNZL554 OMOMN512 PAPAN591 PEPER604 PFPYF258 PGPNG598
  PHPHL608 PKPAK586 PLPOL616 PMSPM666 PNPCN612 PRPRI630 PSPSE275 PTPRT620 PWPLW585 PYPRY600 QAQAT634
  REREU638 ROROU642 RSSRB688 RURUS643 RWRWA646 SASAU682 SBSLB090 SCSYC690 SDSDN729 SESWE752 SGSGP702
  SHSHN654 SISVN705 SJSJM744 SKSVK703 SLSLE694 SMSMR674 SNSEN686 SOSOM706 SRSUR740 SSSSD728 STSTP678
  SVSLV222 SXSXM534 SYSYR760 SZSWZ748 TCTCA796 TDTCD148 TFATF260 TGTGO768 THTHA764 TJTJK762 TKTKL772
  TLTLS626 TMTKM795 TNTUN788 TOTON776 TRTUR792 TTTTO780 TVTUV798 TWTWN158 TZTZA834 UAUKR804 UGUGA800
  UMUMI581 USUSA840 UYURY858 UZUZB860 VAVAT336 VCVCT670 VEVEN862 VGVGB092 VIVIR850 VNVNM704 VUVUT548
  WFWLF876 WSWSM882 YEYEM887 YTMYT175 ZAZAF710 ZMZMB894 ZWZWE716`.split(/\s+/).map(e=>({alpha2:e.slice(0,2),alpha3:e.slice(2,5),numeric:e.slice(5)})),b=`system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif`;function x(e,t){return{dark:e,text:t(`text`),muted:t(`muted`),line:t(`line`),surface:t(`surface`),empty:t(`soft`),onSeries:t(`on-series`),series:[1,2,3,4,5,6,7,8].map(e=>t(`series-${e}`)),font:b}}function S(e){return t=>{let n=document.createElement(`i`);n.style.color=`var(--${t})`,e.append(n);let r=getComputedStyle(n).color;return n.remove(),r}}var C={blues:[`#d6e6f4`,`#5ba3cf`,`#10529a`],reds:[`#fbd9cb`,`#ec6d52`,`#9f1d1f`],greens:[`#d5eed2`,`#5db56b`,`#0c5f2c`],viridis:[`#fde725`,`#21918c`,`#440154`],github:[`#c6ecc8`,`#40b35d`,`#1d6b36`]};function w(e,t){let n=C[e]??C.blues??[];return t.dark?[...n].reverse():n}var T=/^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i;function E(e,t){return typeof e==`string`&&T.test(e)?e:t}var D=`01 AL Alabama
02 AK Alaska
04 AZ Arizona
05 AR Arkansas
06 CA California
08 CO Colorado
09 CT Connecticut
10 DE Delaware
11 DC District of Columbia
12 FL Florida
13 GA Georgia
15 HI Hawaii
16 ID Idaho
17 IL Illinois
18 IN Indiana
19 IA Iowa
20 KS Kansas
21 KY Kentucky
22 LA Louisiana
23 ME Maine
24 MD Maryland
25 MA Massachusetts
26 MI Michigan
27 MN Minnesota
28 MS Mississippi
29 MO Missouri
30 MT Montana
31 NE Nebraska
32 NV Nevada
33 NH New Hampshire
34 NJ New Jersey
35 NM New Mexico
36 NY New York
37 NC North Carolina
38 ND North Dakota
39 OH Ohio
40 OK Oklahoma
41 OR Oregon
42 PA Pennsylvania
44 RI Rhode Island
45 SC South Carolina
46 SD South Dakota
47 TN Tennessee
48 TX Texas
49 UT Utah
50 VT Vermont
51 VA Virginia
53 WA Washington
54 WV West Virginia
55 WI Wisconsin
56 WY Wyoming
60 AS American Samoa
66 GU Guam
69 MP Commonwealth of the Northern Mariana Islands
72 PR Puerto Rico
78 VI United States Virgin Islands`.split(`
`).map(e=>({fips:e.slice(0,2),postal:e.slice(3,5),name:e.slice(6)})),O={world:`world`,"usa-states":`usa-states`,"usa-counties":`usa-counties`},k=e=>e.normalize(`NFD`).replace(/\p{M}/gu,``).toLowerCase().replace(/[^a-z0-9]+/g,` `).trim(),A=new Map,j=new Map,M=new Map;function N(){if(A.size>0)return;let e=typeof Intl.DisplayNames==`function`?new Intl.DisplayNames(`en`,{type:`region`}):void 0;for(let{alpha2:t,alpha3:n,numeric:r}of y){for(let e of[t,n,r,String(Number(r))])A.set(e,r);let i=e?.of(t);i&&j.set(k(i),r)}for(let[e,t]of Object.entries({usa:`840`,"united states of america":`840`,uk:`826`,"great britain":`826`,"ivory coast":`384`,"czech republic":`203`,turkey:`792`,burma:`104`,"south korea":`410`,"north korea":`408`,"democratic republic of the congo":`180`,"republic of the congo":`178`,"russian federation":`643`,kosovo:`Kosovo`}))j.set(e,t);A.set(`XK`,`Kosovo`).set(`XKX`,`Kosovo`).set(`UK`,`826`);for(let{fips:e,postal:t,name:n}of D)for(let r of[e,String(Number(e)),t.toLowerCase(),k(n)])M.set(r,e)}function P(e,t,n){N();let r=t.trim();if(e===`world`)return A.get(r.toUpperCase())??j.get(k(n))??j.get(k(r));if(e===`usa-states`){let e=k(r.replace(/^US-/i,``));return M.get(e)??M.get(k(n))}return/^\d{4,5}$/.test(r)?r.padStart(5,`0`):void 0}function F(t){let r=O[i(t.geoType,`world`)]??null;return{map:r,regions:n(t.data).map(t=>{let n=i(t.regionCode),a=i(t.regionName,n);return{code:n,name:a,value:e(t.value,0),id:r?P(r,n,a):void 0}})}}function I(e,t){let{map:n,regions:r}=F(e);return n?L(n,r,e,t):z(r,t)}function L(e,t,n,r){let a=t.map(e=>e.value),o=new Map(t.map(e=>[e.id,e.name]));return h(r,{tooltip:g(r,`item`,{formatter:e=>o.has(e.name)?`${o.get(e.name)}\n${f(e.value)}`:``}),visualMap:{type:`continuous`,left:0,bottom:0,orient:`horizontal`,itemWidth:10,itemHeight:90,min:Math.min(...a,0),max:Math.max(...a,Math.min(...a,0)+1e-9),text:[f(Math.max(...a,0)),f(Math.min(...a,0))],textStyle:{color:r.muted},inRange:{color:w(i(n.colorScale,`blues`),r)}},series:[{type:`map`,map:e,nameProperty:`id`,roam:!1,selectedMode:!1,top:4,left:4,right:4,bottom:34,label:{show:!1},itemStyle:{areaColor:r.empty,borderColor:r.surface,borderWidth:e===`usa-counties`?.2:.6},emphasis:{label:{show:!1},itemStyle:{areaColor:r.series[2]}},data:t.flatMap(({id:e,value:t})=>e?[{name:e,value:t}]:[])}]})}var R=20;function z(e,t){let n=[...e].sort((e,t)=>t.value-e.value).slice(0,R);return h(t,{tooltip:g(t,`item`),grid:{left:6,right:24,top:6,bottom:6,outerBoundsMode:`same`,outerBoundsContain:`axisLabel`},xAxis:{type:`value`,splitLine:{lineStyle:{color:t.line}},axisLabel:{color:t.muted}},yAxis:{type:`category`,inverse:!0,data:n.map(e=>v(e.name)),axisTick:{show:!1},axisLine:{show:!1},axisLabel:{color:t.text}},series:[{type:`bar`,barMaxWidth:18,itemStyle:{borderRadius:[0,4,4,0]},data:n.map(e=>e.value)}]})}function B(e){let{map:t,regions:n}=F(e);if(!t)return d().noMap;let r=n.filter(e=>!e.id).map(e=>e.name);return r.length>0?d().notOnMap(`${r.slice(0,10).join(`, `)}${r.length>10?` …`:``}`):``}var V=[`bar`,`line`,`pie`,`area`,`scatter`,`radar`,`funnel`,`treemap`,`sankey`,`radial-bar`,`composed`,`geographic`,`gauge`,`calendar-heatmap`,`ban`,`table`],H=5e3;function U(e){if(!o(e)||!o(e.chartData))return null;let t=V.find(t=>t===e.chartType);if(!t||e.status!==void 0&&e.status!==`success`)return null;let n=a(e.chartData);return t!==`table`&&Object.values(n).some(e=>Array.isArray(e)&&e.length>H)?null:{kind:t,title:i(e.title,i(n.title)),description:i(n.description,i(e.description)),data:n}}export{x as a,w as c,h as d,_ as f,d as g,m as h,F as i,f as l,g as m,I as n,S as o,v as p,B as r,E as s,U as t,p as u};